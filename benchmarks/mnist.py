"""Time of LeNet training against plain torch: one process, one thread each, in turns.

    python benchmarks/mnist.py [--data DIR] [--epochs 2] [--contract v1]

Without `--data`, the images are random bytes of MNIST's sizes. Each round trains both
models on the same batches; the order within a round alternates. Prints seconds an epoch
and the ratio, ours to torch's: 1.0 is as fast, more is slower.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import repdl

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from mnist_training import BATCH_SIZE, Images, lenet, mnist


def random_images() -> Images:
    """60,000 images of random bytes, with random labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (60000, 1, 28, 28), generator=generator).float() / 256
    return Images(images, torch.randint(10, (60000,), generator=generator))


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss_function: Any, batches: Any) -> float:
    """Seconds for one pass over the batches."""
    start = time.perf_counter()
    for images, labels in batches:
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--rounds-per-epoch", type=int, default=10, metavar="N")
    parser.add_argument("--contract", default="v1")
    args = parser.parse_args()

    torch.set_num_threads(1)
    repdl.set_num_threads(1)
    data = mnist(args.data)[0] if args.data else random_images()
    torch.manual_seed(0)
    plain = lenet()
    ours = repdl.from_torch_module(plain, contract=args.contract)
    functional = repdl.nn.functional
    runs = {
        "torch": (plain, torch.optim.Adam(plain.parameters(), lr=0.01), torch.nn.functional.cross_entropy),
        "repdl": (ours, repdl.optim.Adam(ours.parameters(), lr=0.01), functional.cross_entropy),
    }
    order = torch.randperm(len(data)).split(BATCH_SIZE)
    batches = [data.__getitems__(index.tolist()) for index in order]
    size = -(-len(batches) // args.rounds_per_epoch)
    rounds = [batches[i : i + size] for i in range(0, len(batches), size)] * args.epochs
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        train(*run, batches[:20])  # warm up
    with repdl.use_contract(args.contract):
        for number, part in enumerate(rounds):
            for name in sorted(runs, reverse=bool(number % 2)):
                seconds[name].append(train(*runs[name], part))
    for name, times in seconds.items():
        print(f"{name}: {sum(times):.2f} s for {args.epochs} epochs")
    ratios = [ours / torchs for ours, torchs in zip(seconds["repdl"], seconds["torch"])]
    whole = sum(seconds["repdl"]) / sum(seconds["torch"])
    print(f"ratio repdl / torch, contract {args.contract}, one thread each: {whole:.2f} in all")
    print(f"median of {len(ratios)} rounds: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
