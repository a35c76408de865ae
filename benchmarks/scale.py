"""Reductions over 1,000 simulated ranks and more: bits, messages, bytes, errors.

The code of the ranks is that of `repdl.distributed`, the transport is simulated. Nothing is timed.

    python benchmarks/scale.py    # a minute
"""

from __future__ import annotations

import argparse
import math

import torch

import repdl
from repdl.distributed import algorithms
from repdl.distributed.simulation import simulate
from repdl.ops.reduction.all_reduce import join_ranks


def chain(ranks: torch.Tensor) -> torch.Tensor:
    """One rank after the other, as a ring adds."""
    total = ranks[0].clone()
    for x in ranks[1:]:
        total += x
    return total


def two_levels(ranks: torch.Tensor, per_machine: int) -> torch.Tensor:
    """First the ranks of each machine, then the machines."""
    return join_ranks([join_ranks(list(part), "sum") for part in ranks.split(per_machine)], "sum")


def error(total: torch.Tensor, ranks: torch.Tensor) -> float:
    """The root mean square error, in 2**-24 of that of the exact sums."""
    exact = ranks.double().sum(0)
    return float((total.double() - exact).square().mean().sqrt() / exact.square().mean().sqrt() * 2**24)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def numbers(rank: int, elements: int) -> torch.Tensor:
    return torch.randn(elements, generator=torch.Generator().manual_seed(rank))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8, 64, 256, 1000, 1024], metavar="W")
    parser.add_argument("--elements", type=int, default=16_384, metavar="N", help="of a tensor (default: 16384)")
    args = parser.parse_args()
    repdl.set_num_threads(1)
    print("| ranks | algorithm | same bits as all_reduce | messages a rank sends | bytes / bytes of the tensor |")
    print("| --- | --- | --- | --- | --- |")
    errors = []
    for size in args.ranks:
        ranks = torch.stack([numbers(rank, args.elements) for rank in range(size)])
        expected = join_ranks(list(ranks), "sum")
        ways = [algorithms.sharded, *([algorithms.halved] if size & (size - 1) == 0 else [])]
        for way in ways:
            found = simulate(way, ranks, "sum")
            same = "yes" if all(same_bits(x, expected) for x in found.tensors) else "NO"
            print(f"| {size} | {way.__name__} | {same} | {found.messages} | {found.bytes / ranks[0].nbytes:.3f} |")
        levels = {per: same_bits(two_levels(ranks, per), expected) for per in (6, 8)}
        depth = math.ceil(math.log2(size))
        errors.append(
            f"| {size} | {depth} | {error(expected, ranks):.2f} | {size - 1} | {error(chain(ranks), ranks):.2f} "
            f"| {'yes' if levels[8] else 'no'} | {'yes' if levels[6] else 'no'} |"
        )
    print("\n| ranks | additions one after the other: tree | error: tree | chain | error: chain ", end="")
    print("| machines of 8: same bits | machines of 6: same bits |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(errors))


if __name__ == "__main__":
    main()
