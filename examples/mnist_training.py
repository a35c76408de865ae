"""Train LeNet on handwritten digits and print hashes to compare with a colleague's.

    python examples/mnist_training.py                     # 1,797 digits of scikit-learn
    python examples/mnist_training.py --data DIR          # MNIST: the four idx files, plain or .gz
    python examples/mnist_training.py --backend cuda      # on a GPU
    python examples/mnist_training.py --save-start FILE   # for a machine with another torch: --start FILE there

The same contract gives the same four lines on any machine, whatever the ISA, the number of
threads and the backend. With `--contract sequential` on MNIST they are the ones that
Microsoft RepDL published.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

import repdl
from repdl.registry.backend import get_backend

RECORDED = Path(__file__).with_name("recorded_hashes.json")
BATCH_SIZE = 100
HASHED_STEPS = (1, 2, 10, 100, 600)


class Images(Dataset[Any]):
    """Images (N, 1, 28, 28) float32 in [0, 1] and labels (N), fetched a batch at a time."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, indices: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.tensor(indices)
        return self.images[index], self.labels[index]


def read_idx(directory: Path, name: str) -> np.ndarray:
    """One idx file: http://yann.lecun.com/exdb/mnist/ describes the format."""
    for path in (directory / name, directory / f"{name}.gz"):
        if path.exists():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
            return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)
    raise SystemExit(f"mnist_training: {directory / name} not found (neither plain nor .gz)")


def mnist(directory: Path) -> tuple[Images, Images]:
    """The 60,000 training and 10,000 test images."""
    parts = []
    for part in ("train", "t10k"):
        images = torch.from_numpy(read_idx(directory, f"{part}-images-idx3-ubyte").astype(np.float32))
        labels = torch.from_numpy(read_idx(directory, f"{part}-labels-idx1-ubyte").astype(np.int64))
        parts.append(Images(repdl.ops.div(images, 255).unsqueeze(1), labels))
    return parts[0], parts[1]


def digits() -> tuple[Images, Images]:
    """scikit-learn's 8x8 digits, each pixel repeated 3x3 and framed to 28x28: 1,500 and 297."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy((bunch.images / 16).astype(np.float32))  # sixteenths: exact
    images = images.repeat_interleave(3, 1).repeat_interleave(3, 2)
    images = torch.nn.functional.pad(images, (2, 2, 2, 2)).unsqueeze(1)
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    return Images(images[:1500], labels[:1500]), Images(images[1500:], labels[1500:])


def lenet() -> torch.nn.Module:
    """The model of Microsoft RepDL's example."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, kernel_size=5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(kernel_size=2, stride=2),
        torch.nn.Conv2d(6, 16, kernel_size=5),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(kernel_size=2, stride=2),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 5 * 5, 120),
        torch.nn.ReLU(),
        torch.nn.Linear(120, 84),
        torch.nn.ReLU(),
        torch.nn.Linear(84, 10),
    )


def loader(data: Images, shuffle: bool) -> DataLoader[Any]:
    """Batches of `BATCH_SIZE`, in the order that torch's global generator gives."""
    return DataLoader(data, batch_size=BATCH_SIZE, shuffle=shuffle, collate_fn=lambda batch: batch)


def train(
    model: torch.nn.Module, data: Images, device: str, epochs: int, steps: int | None, report: dict[str, Any]
) -> None:
    """Adam with lr 0.01 on the mean cross entropy; `steps` ends the run early."""
    optimizer = repdl.optim.Adam(model.parameters(), lr=0.01)
    batches = loader(data, shuffle=True)
    total = epochs * len(batches) if steps is None else min(steps, epochs * len(batches))
    step = 0
    with tqdm(total=total, unit="step", desc="training") as bar:
        for _ in range(epochs):
            for images, labels in batches:
                if step == total:
                    return
                loss = repdl.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                bar.update()
                if step % 100 == 0:
                    bar.set_postfix(loss=f"{loss.item():.4f}")
                if step in HASHED_STEPS:
                    report["after_steps"][str(step)] = repdl.utils.get_hash(model)
                    report["loss_at_steps"][str(step)] = loss.item()


@torch.no_grad()
def test(model: torch.nn.Module, data: Images, device: str) -> tuple[torch.Tensor, int]:
    """Logits (N, 10) of the test images, and how many are right."""
    model.eval()
    outputs = torch.cat([model(images.to(device)).cpu() for images, _ in loader(data, shuffle=False)])
    right = (outputs.argmax(1) == data.labels).sum().item()
    return outputs, int(right)


def save_start(path: Path) -> None:
    """Write the initial model, and torch's generator as it is before the batches are drawn."""
    torch.manual_seed(0)
    model = repdl.from_torch_module(lenet())
    lenet()
    torch.save({"model": model.state_dict(), "generator": torch.get_rng_state()}, path)
    print(f"Hash of the initial model: {repdl.utils.get_hash(model)}")


def compare_with_recorded(run: str, contract: str, report: dict[str, Any], whole: bool) -> bool:
    """Say whether the hashes equal those recorded in the repository, where there are any; of a part those it has."""
    recorded = json.loads(RECORDED.read_text()).get(run, {}).get(contract) if RECORDED.exists() else None
    if recorded is None:
        print(f"No hashes are recorded for {run} under contract {contract}.")
        return True
    if recorded["initial"] != report["initial"]:
        print(
            "The initial model differs from the recorded one: torch's own initialisation depends on its "
            "version and on the processor (AVX2 or better). The run is not comparable."
        )
        return False
    wrong = [
        f"step {step}" for step, digest in report["after_steps"].items() if recorded["after_steps"][step] != digest
    ]
    wrong += [key for key in ("trained", "accuracy", "logits") if whole and recorded[key] != report[key]]
    print(
        f"Differs from the recorded run in: {', '.join(wrong)}."
        if wrong
        else f"{'All' if whole else 'So far all'} hashes equal those recorded for {run} under contract {contract}."
    )
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with the four MNIST idx files")
    parser.add_argument("--contract", default=None, help="v1 (default) or sequential")
    parser.add_argument("--backend", metavar="NAME", help="cpu, cuda or another; default: the fastest for the CPU")
    parser.add_argument("--threads", type=int, metavar="N", help="default: torch's number of threads")
    parser.add_argument("--epochs", type=int, metavar="N", help="default: 2 for MNIST, 20 for the digits")
    parser.add_argument("--steps", type=int, metavar="N", help="stop after N training steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write hashes and losses there")
    parser.add_argument("--start", type=Path, metavar="FILE", help="begin with what --save-start wrote")
    parser.add_argument("--save-start", type=Path, metavar="FILE", help="write the initial state there, and stop")
    parser.add_argument("--record", action="store_true", help="record the hashes in the repository")
    args = parser.parse_args()

    if args.save_start:
        save_start(args.save_start)
        return 0
    run = "mnist" if args.data else "digits"
    epochs = args.epochs if args.epochs is not None else (2 if args.data else 20)
    if args.threads:
        repdl.set_num_threads(args.threads)
    try:
        device = get_backend(args.backend).device if args.backend else "cpu"
    except repdl.RepDLError as error:
        parser.error(f"--backend: {error}")
    contract = str(repdl.Contract.parse(args.contract)) if args.contract else str(repdl.get_contract())
    report: dict[str, Any] = {"run": run, "contract": contract, "after_steps": {}, "loss_at_steps": {}}

    with repdl.use_contract(contract):
        train_data, test_data = mnist(args.data) if args.data else digits()
        torch.manual_seed(0)
        model = repdl.from_torch_module(lenet())
        start = torch.load(args.start) if args.start else None
        if start:
            model.load_state_dict(start["model"])
        report["initial"] = repdl.utils.get_hash(model)
        lenet()  # the seed's converter initialised every layer anew; the batches are drawn after that
        if start:
            torch.set_rng_state(start["generator"])
        # Up to here all is on the CPU; the backend computes the rest on its device.
        if args.backend:
            repdl.set_backend(args.backend)
        model.to(device)
        print(f"Hash of the initial model: {report['initial']}")
        train(model, train_data, device, epochs, args.steps, report)
        report["trained"] = repdl.utils.get_hash(model)
        print(f"Hash of the trained model: {report['trained']}")
        outputs, right = test(model, test_data, device)
        report["accuracy"] = right / len(test_data)
        print(f"Test accuracy of the model on the {len(test_data)} test images: {report['accuracy']}")
        report["logits"] = repdl.utils.get_hash(outputs)
        print(f"Hash of the logits: {report['logits']}")

    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")
    whole = args.steps is None and args.epochs is None
    if args.record and whole:
        recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        bits = {key: value for key, value in report.items() if key not in ("run", "contract")}
        recorded.setdefault(run, {})[contract] = bits
        RECORDED.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
        return 0
    return 0 if compare_with_recorded(run, contract, report, whole) else 1


if __name__ == "__main__":
    raise SystemExit(main())
