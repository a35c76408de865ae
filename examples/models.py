"""Train small models of the usual kinds from one seed: each has one digest, on any machine.

    python examples/models.py                    # all of them
    python examples/models.py vit gpt --threads 2
    python examples/models.py --device cuda      # on a GPU

They are written with torch.nn, converted by `repdl.from_torch_module`, and trained for 20 steps on numbers drawn
by `repdl.random`. Functions in a forward are those of `repdl.nn.functional`; so is an addition that broadcasts, whose
derivative is a sum.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import repdl
import repdl.nn.functional as F
from repdl import ops

RECORDED = Path(__file__).with_name("recorded_models.json")
SEED, STEPS = 2024, 20
Tensor = torch.Tensor
Batch = tuple[Tensor, ...]


class Residual(nn.Module):
    """A basic block of ResNet (https://arxiv.org/abs/1512.03385)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2, self.relu = nn.BatchNorm2d(out), nn.BatchNorm2d(out), nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


def resnet18(width: int = 8, classes: int = 10) -> nn.Module:
    """ResNet-18, as wide as asked for (64 in the paper)."""
    stages, channels = [], width
    for stage in range(4):
        out = width << stage
        stages += [Residual(channels, out, 1 if stage == 0 else 2), Residual(out, out, 1)]
        channels = out
    stem = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class ViT(nn.Module):
    """A vision transformer (https://arxiv.org/abs/2010.11929) of torch's encoder layers."""

    def __init__(self, size: int = 16, patch: int = 4, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Embedding(1, width)
        self.place = nn.Embedding((size // patch) ** 2 + 1, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        first = self.token(torch.zeros(len(x), 1, dtype=torch.int64))
        x = torch.cat((first, x), 1)
        return self.head(self.encoder(ops.add(x, self.place(torch.arange(x.shape[1]))))[:, 0])


class GPT(nn.Module):
    """A decoder like GPT-2, with dropout, and with one table for tokens that come and go."""

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: Tensor) -> Tensor:
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + self.dropout(self.out(y))
            return x + self.dropout(self.mlp(self.norm2(x)))

    def __init__(self, tokens: int = 40, length: int = 24, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(nn.Dropout(0.1), *(GPT.Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = ops.add(self.token(tokens), self.place(torch.arange(tokens.shape[1], device=tokens.device)))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class Recurrent(nn.Module):
    """A language model of two layers of LSTM, with dropout between them."""

    def __init__(self, tokens: int = 40, width: int = 48) -> None:
        super().__init__()
        self.token = nn.Embedding(tokens, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.1, batch_first=True)
        self.dropout, self.head = nn.Dropout(0.1), nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        output, _ = self.lstm(self.dropout(self.token(tokens)))
        return self.head(self.dropout(output)).flatten(0, 1)


class BERT(nn.Module):
    """An encoder that says which tokens were hidden from it; texts end where padding begins."""

    def __init__(self, tokens: int = 40, length: int = 24, width: int = 32) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width, padding_idx=0), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, "gelu", batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(ops.add(self.token(tokens), self.place(torch.arange(tokens.shape[1], device=tokens.device))))
        return self.head(self.encoder(x, src_key_padding_mask=tokens == 0)).flatten(0, 1)


class UNet(nn.Module):
    """A U-Net (https://arxiv.org/abs/1505.04597) of three levels, with transposed convolutions."""

    @staticmethod
    def block(channels: int, out: int) -> nn.Module:
        layers: list[nn.Module] = []
        for first in (channels, out):
            layers += [nn.Conv2d(first, out, 3, padding=1), nn.GroupNorm(2, out), nn.SiLU()]
        return nn.Sequential(*layers)

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.ModuleList(UNet.block(a, b) for a, b in ((3, width), (width, 2 * width)))
        self.bottom = UNet.block(2 * width, 4 * width)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (2 * width, width))
        self.join = nn.ModuleList(UNet.block(2 * n, n) for n in (2 * width, width))
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for down in self.down:
            kept.append(down(x))
            x = self.pool(kept[-1])
        x = self.bottom(x)
        for up, join, beside in zip(self.up, self.join, reversed(kept)):
            x = join(torch.cat((beside, up(x)), 1))
        return self.head(x)


class VAE(nn.Module):
    """A variational autoencoder (https://arxiv.org/abs/1312.6114): the loss of a batch."""

    def __init__(self, pixels: int = 64, width: int = 48, latent: int = 6) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.Tanh(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.Tanh(), nn.Linear(width, pixels))
        self.likelihood = nn.BCEWithLogitsLoss(reduction="sum")

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        deviation = ops.exp(ops.mul(log_variance, 0.5))
        z = mean + deviation * repdl.random.randn(mean.shape)
        terms = ops.exp(log_variance) + mean * mean - log_variance - 1
        divergence = ops.mul(ops.sum(terms), 0.5)
        return ops.div(self.likelihood(self.decoder(z), x) + divergence, len(x))


def redrawn(model: nn.Module) -> nn.Module:
    """The model converted, its initial values drawn anew by `repdl.random`."""
    model = repdl.from_torch_module(model)
    for module in model.modules():
        for name in ("reset_parameters", "_reset_parameters"):
            if hasattr(module, name):
                getattr(module, name)()
                break
    return model


@dataclass
class Task:
    """A model, its batches, and its loss."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]
    lr: float = 0.01


def _images(size: int) -> Batch:
    return repdl.random.randn(8, 3, size, size), repdl.random.randint(10, (8,))


def _classified(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1].flatten())


def _texts() -> Batch:
    tokens = repdl.random.randint(1, 40, (4, 25))
    return tokens[:, :-1], tokens[:, 1:]


def _hidden() -> Batch:
    tokens = repdl.random.randint(2, 40, (4, 24))
    tokens[1, 17:] = 0
    hidden = repdl.random.rand(4, 24) < 0.2
    wanted = tokens.masked_fill(~hidden | (tokens == 0), -100)
    return tokens.masked_fill(hidden & (tokens != 0), 1), wanted


def _masks() -> Batch:
    images = repdl.random.randn(2, 3, 16, 16)
    return images, (images[:, 0] > 0.3).long()


def _pixels() -> Batch:
    return ((repdl.random.rand(16, 1) < repdl.random.rand(1, 64)).float(),)


TASKS = {
    "resnet18": Task(resnet18, lambda: _images(32), _classified),
    "vit": Task(ViT, lambda: _images(16), _classified),
    "gpt": Task(GPT, _texts, _classified),
    "lstm": Task(Recurrent, _texts, _classified, 0.03),
    "bert": Task(BERT, _hidden, _classified),
    "unet": Task(UNet, _masks, lambda m, b: F.cross_entropy(m(b[0]), b[1])),
    "vae": Task(VAE, _pixels, lambda m, b: m(b[0])),
}
"""All but the GAN, which is trained against its critic."""


def trained(name: str) -> tuple[float, float, str]:
    """The first loss, the last one, and the digest of the model that a task trains."""
    repdl.random.seed_everything(SEED)
    if name == "gan":
        return _gan()
    task = TASKS[name]
    model, batch, losses = redrawn(task.model()), task.batch(), []
    optimizer = repdl.optim.Adam(model.parameters(), task.lr)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1], repdl.digest(model)


def _gan() -> tuple[float, float, str]:
    """Two networks against each other (https://arxiv.org/abs/1406.2661); the losses are those of the critic."""
    maker = redrawn(
        nn.Sequential(
            *(nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()),
        )
    )
    critic = redrawn(
        nn.Sequential(
            *(nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Dropout2d(0.2)),
            *(nn.Conv2d(16, 1, 4), nn.Flatten()),
        )
    )
    optimizers = [repdl.optim.Adam(m.parameters(), 0.01, betas=(0.5, 0.999)) for m in (maker, critic)]
    real, likelihood, losses = repdl.random.rand(8, 3, 8, 8), repdl.nn.BCEWithLogitsLoss(), []
    for _ in range(STEPS):
        made = maker(repdl.random.randn(8, 8, 1, 1))
        both = torch.cat((critic(real), critic(made.detach())))
        loss = likelihood(both, torch.cat((torch.ones(8, 1), torch.zeros(8, 1))))
        losses.append(loss.item())
        for optimizer, value in ((optimizers[1], loss), (optimizers[0], None)):
            optimizer.zero_grad()
            (likelihood(critic(made), torch.ones(8, 1)) if value is None else value).backward()
            optimizer.step()
    return losses[0], losses[-1], repdl.digest({"maker": maker.state_dict(), "critic": critic.state_dict()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*TASKS, "gan"]
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu", help="that of the models and their batches; default: cpu")
    parser.add_argument("--record", action="store_true", help="write the digests of models that have none yet")
    args = parser.parse_args()
    for name in args.models:
        if name not in names:
            parser.error(f"{name} is no model, expected some of {', '.join(names)}")
    if args.threads:
        repdl.set_num_threads(args.threads)
        torch.set_num_threads(args.threads)
    torch.set_default_device(args.device)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}
    wrong = []
    for name in args.models or names:
        first, last, digest = trained(name)
        expected = recorded.setdefault(name, digest) if args.record else recorded.get(name)
        wrong += [name] if digest != expected else []
        print(f"{name:9} loss {first:8.4f} -> {last:8.4f}  {digest}{'' if digest == expected else '  DIFFERS'}")
    if args.record:
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n")
    print(f"{', '.join(wrong)}: not the digests recorded." if wrong else "All digests equal those recorded.")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
