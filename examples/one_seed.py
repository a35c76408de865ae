"""Train LeNet with dropout from one seed: initial values, order, augmentation and dropout, the same bits anywhere.

    python examples/one_seed.py                      # 512 digits of scikit-learn, two epochs
    python examples/one_seed.py --workers 2          # the same, loaded by two processes
    python examples/one_seed.py --device cuda        # the same, trained on a GPU

Nothing is loaded from a file: every number that is drawn is one of `repdl.random`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import repdl
from repdl import nn, random

RECORDED = Path(__file__).with_name("recorded_hashes.json")
SEED, EPOCHS, BATCH = 2024, 2, 64


class Digits(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """8x8 digits in a frame of 12x12, each moved by up to two pixels: by numbers of epoch and index alone."""

    def __init__(self, count: int) -> None:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        images = torch.from_numpy((bunch.images[:count] / 16).astype(np.float32))  # sixteenths: exact
        self.images = torch.nn.functional.pad(images, (4, 4, 4, 4))
        self.labels = torch.from_numpy(bunch.target[:count].astype(np.int64))
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        own = random.Generator(SEED, stream=1 + self.epoch * len(self) + index)
        top, left = random.randint(5, (2,), generator=own).tolist()
        return self.images[index, top : top + 12, left : left + 12].unsqueeze(0), self.labels[index]


def lenet() -> torch.nn.Module:
    """LeNet for images of 12x12, with dropout of channels and of elements."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 3),
        nn.ReLU(),
        nn.Dropout2d(0.1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 84),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(84, 10),
    )


def trained(workers: int = 0, device: str = "cpu") -> dict[str, str]:
    """Digests of the initial and of the trained model, and of the state of the generator."""
    random.seed_everything(SEED)
    model, data = lenet().to(device), Digits(512)
    digests = {"initial": repdl.digest(model)}
    order = random.sampler(data, SEED)
    loader = DataLoader(data, BATCH, sampler=order, num_workers=workers)
    optimizer, loss = repdl.optim.Adam(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        order.set_epoch(epoch)
        data.epoch = epoch
        for images, labels in loader:
            optimizer.zero_grad()
            loss(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
    return {**digests, "trained": repdl.digest(model), "generator": repdl.digest({"state": random.get_state()})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes that load data; default: 0")
    parser.add_argument("--threads", type=int, metavar="N", help="default: torch's number of threads")
    parser.add_argument("--device", default="cpu", help="of the model; default: cpu")
    parser.add_argument("--record", action="store_true", help="record the hashes in the repository")
    args = parser.parse_args()
    if args.threads:
        repdl.set_num_threads(args.threads)
    digests = trained(args.workers, args.device)
    for name, digest in digests.items():
        print(f"{name}: {digest}")
    recorded = json.loads(RECORDED.read_text())
    if args.record:
        RECORDED.write_text(json.dumps({**recorded, "one_seed": {"v1": digests}}, indent=2, sort_keys=True) + "\n")
        return 0
    if recorded["one_seed"]["v1"] != digests:
        print("The hashes differ from the recorded ones.")
        return 1
    print("All hashes equal those recorded.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
