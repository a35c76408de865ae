"""Time of each CUDA kernel against torch's on the same GPU: cuBLAS and cuDNN in float32, torch's own kernels.

    python benchmarks/cuda_kernels.py [--only mm,conv] [--match TEXT] [--json FILE]

As benchmarks/kernels.py, but timed by CUDA events. It is the GPU's own time: calls wait in its
queue, so that Python's time for a short call does not count. TF32 is off. Sums are compared
also with a copy that moves as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import work
from processor import this_gpu
from table import arguments, choose, on, report, time_rows
from work import Call, Work, rand

import repdl
from repdl.registry.backend import get_backend

ops = repdl.ops
QUEUE = 400_000
"""Cycles of the GPU, some 0.2 ms, in which Python is to make one call."""


def milliseconds(call: Call, repeat: int) -> float:
    """The GPU's time for `repeat` calls."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(QUEUE * repeat)
    begin.record()
    for _ in range(repeat):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def bounded(works: Iterator[Work], **bounds: float) -> Iterator[Work]:
    """With other bounds: that of the word in the name of the work, or none."""
    for each in works:
        yield replace(each, bound=next((bound for word, bound in bounds.items() if word in each.name), 0.0))


def mm_work() -> Iterator[Work]:
    for n in (1024, 2048, 4096, 8192):
        a, b = rand(n, n), rand(n, n)
        yield Work(f"mm {n}^3", (lambda a=a, b=b: torch.mm(a, b),), lambda a=a, b=b: ops.mm(a, b), 0.9)
    for k in (78_400, 802_816):
        a, b = rand(k, 64), rand(k, 10)
        theirs = lambda a=a, b=b: torch.mm(a.t(), b)
        yield Work(f"mm 64x10, k = {k}", (theirs,), lambda a=a, b=b: ops.mm(a, b, True), 0.5)


def conv_work() -> Iterator[Work]:
    """cuDNN's fastest algorithm, and its fastest that gives the same bits in every run."""
    # With 256 images the weight gradients of the first layers have k = 802,816; MNIST's have 78,400.
    for each in bounded(work.conv_work(images=256), grad_weight=0.5):
        for torch.backends.cudnn.deterministic in (True, False):
            kind = ", deterministic" if torch.backends.cudnn.deterministic else ""
            yield replace(each, name=each.name + kind, group=each.group and each.group + kind)


def reduction_work() -> Iterator[Work]:
    x, half = rand(16384, 16384), rand(8192, 16384)
    to = torch.empty_like(half)  # a copy reads and writes
    for dim in (None, 0, 1):
        yield Work(f"sum 16384^2 dim={dim} / copy", (lambda: to.copy_(half),), lambda d=dim: ops.sum(x, d), 0.8)
    yield from bounded(work.reduction_work())


GROUPS = {
    "mm": mm_work,
    "conv": conv_work,
    "reduction": reduction_work,
    "normalisation": lambda: bounded(work.normalisation_work(times=64)),
    "elementwise": lambda: bounded(work.elementwise_work(26)),
    "optimizer": lambda: bounded(work.optimizer_work(), Adam=0.8),
}


def main() -> None:
    parser = arguments(__doc__, GROUPS)
    args = parser.parse_args()
    try:
        details = get_backend("cuda").describe()
    except repdl.RepDLError as error:
        parser.error(str(error))
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    rows = time_rows(on("cuda", choose(parser, args, GROUPS)), args.seconds, milliseconds, mean_bound=0.0)
    about = {
        "processor": this_gpu(),
        "torch": torch.__version__,
        "CUDA": torch.version.cuda,
        "cuDNN": torch.backends.cudnn.version(),
    }
    report(rows, args.json, {**about, "contract": str(repdl.get_contract()), **details})


if __name__ == "__main__":
    main()
