"""Time of training steps that mix our layers with torch's own ops, against torch alone, in one process.

    python benchmarks/mixed.py [--threads 2] [--rounds 15] [--only resnet20,lenet]

ResNet-20 on 32 images of CIFAR's size and LeNet on 100 of MNIST's. Ours has our convolutions,
normalisations and linear layers; activations, additions, pooling, loss and optimizer are torch's, on
torch's threads: where those and ours are not the same, they compete for the processors. The two sides
take turns; every turn begins with 0.1 s of steps that do not count, since OpenMP's threads keep their
processors busy for 10 ms after a call. Prints milliseconds a step and the median of the rounds' ratios,
ours to torch's: 1.0 is as fast, more is slower.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn
from turns import arguments, compare

import repdl

F = torch.nn.functional


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet20(nn.Module):
    """ResNet-20 for 32x32 images. Source: https://arxiv.org/abs/1512.03385"""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        widths = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2)]
        self.blocks = nn.Sequential(*(Block(*width) for width in [*widths, (64, 64, 1), (64, 64, 1)]))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(torch.relu(self.bn(self.conv(x))))
        return self.linear(x.mean((2, 3)))


class LeNet(nn.Module):
    """LeNet, with torch's own activations and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.linear1, self.linear2, self.linear3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.linear3(torch.relu(self.linear2(torch.relu(self.linear1(x)))))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet20": (ResNet20, (32, 3, 32, 32)),
    "lenet": (LeNet, (100, 1, 28, 28)),
}


def stepper(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """A training step with torch's loss and optimizer."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    args = arguments(__doc__, MODELS)
    for name in args.only.split(","):
        make, shape = MODELS[name]
        images, labels = torch.rand(shape), torch.randint(10, shape[:1])
        plain = make()
        steps = {
            "torch": stepper(plain, images, labels),
            "repdl": stepper(repdl.from_torch_module(copy.deepcopy(plain), strict=False), images, labels),
        }
        compare(name, steps, args)


if __name__ == "__main__":
    main()
