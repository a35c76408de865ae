"""Train LeNet with torch's own code, by RepDL or by torch alone, and keep the loss of each step.

    python examples/loss_curves.py                     # under repdl.enable()
    python examples/loss_curves.py --plain             # by torch alone
    python examples/loss_curves.py --plain --threads 2 # another number of threads, another curve
    ATEN_CPU_CAPABILITY=default python examples/loss_curves.py --plain

Initial values and order of data are RepDL's in both, so runs differ by the arithmetic of their steps alone.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

import torch
from mnist_training import BATCH_SIZE, digits, lenet
from torch.utils.data import DataLoader

import repdl

EPOCHS = 20


def trained(plain: bool) -> tuple[list[float], torch.nn.Module]:
    """The loss before each step, and the trained model."""
    data, _ = digits()
    order = repdl.random.sampler(data, seed=0)
    loader = DataLoader(data, BATCH_SIZE, sampler=order, collate_fn=lambda batch: batch)
    with repdl.enabled():
        torch.manual_seed(0)
        model = lenet()
    losses = []
    with nullcontext() if plain else repdl.enabled():
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(EPOCHS):
            order.set_epoch(epoch)
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    return losses, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="by torch alone")
    parser.add_argument("--threads", type=int, metavar="N", help="default: torch's number of threads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the losses and the digest there")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
        repdl.set_num_threads(args.threads)
    losses, model = trained(args.plain)
    digest = repdl.digest(model)
    for step in (1, 10, 100, len(losses)):
        print(f"loss of step {step:3}: {losses[step - 1]}")
    print(f"digest of the trained model: {digest}")
    if args.json:
        args.json.write_text(json.dumps({"losses": losses, "digest": digest}) + "\n")


if __name__ == "__main__":
    main()
