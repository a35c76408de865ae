"""How fast `repdl.checkpoint` saves and loads, against the disk.

    python benchmarks/checkpoint.py --into FOLDER --megabytes 1024

The same bytes are written into a plain file, with one flush at its end, and saved, with digests. The two take turns,
since the speed of a disk changes; the ratio is the median of turns. More than 1 is faster than the plain file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch

from repdl import checkpoint

_PART = 2**24


def plain(path: Path, tensors: dict[str, torch.Tensor]) -> float:
    """Seconds to write all bytes into a file and flush it."""
    begin = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for tensor in tensors.values():
            raw = memoryview(tensor.numpy()).cast("B")  # type: ignore[arg-type]
            for at in range(0, raw.nbytes, _PART):
                file.write(raw[at : at + _PART])
        os.fsync(file.fileno())
    return time.perf_counter() - begin


def saved(path: Path, tensors: dict[str, torch.Tensor]) -> float:
    """Seconds to save them."""
    begin = time.perf_counter()
    checkpoint.save(path, extra=tensors)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=7)
    args = parser.parse_args()
    tensors = {f"layer{i}": torch.randn(2**23) for i in range(max(1, args.megabytes // 32))}
    size, ratios, loads = len(tensors) * 2**25 / 1e9, [], []
    with tempfile.TemporaryDirectory(dir=args.into) as folder:
        file, other = Path(folder) / "plain", Path(folder) / "checkpoint"
        for _ in range(args.turns):
            os.sync()
            disk = plain(file, tensors)
            file.unlink()
            os.sync()
            ours = saved(other, tensors)
            begin = time.perf_counter()
            checkpoint.load(other)
            loads.append(size / (time.perf_counter() - begin))
            other.unlink()
            ratios.append(disk / ours)
            print(f"disk {size / disk:.2f} GB/s, save {size / ours:.2f} GB/s, ratio {disk / ours:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}, load {statistics.median(loads):.2f} GB/s from memory")


if __name__ == "__main__":
    main()
