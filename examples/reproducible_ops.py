"""The same product, quotient and root on every device, thread count and batch size.

    python examples/reproducible_ops.py

For each operation, torch's and RepDL's results are compared bit by bit between ways of
computing that should not matter. With a GPU and repdl-cuda installed, CPU and GPU are
compared too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import repdl

Op = Callable[[torch.Tensor], torch.Tensor]


def rows_alone(op: Op, x: torch.Tensor) -> torch.Tensor:
    """The op on one row at a time."""
    return torch.cat([op(row) for row in x.split(1)])


def compare(name: str, torch_op: Op, repdl_op: Op, x: torch.Tensor) -> None:
    """Print whether the whole batch and the single rows (and the GPU) give the same bits."""
    for library, op in (("torch", torch_op), ("RepDL", repdl_op)):
        whole = op(x)
        line = f"{name:>10}  {library}: batch and single rows equal: {torch.equal(whole, rows_alone(op, x))}"
        if torch.cuda.is_available() and (library == "torch" or "cuda" in repdl.backends()):
            line += f", CPU and GPU equal: {torch.equal(whole, op(x.cuda()).cpu())}"
        print(line)


def main() -> None:
    repdl.random.manual_seed(0)  # torch's own numbers depend on the processor
    x = repdl.random.rand(1000, 1000)
    y = repdl.random.rand(1000, 1000)
    compare("mm", lambda a: torch.mm(a, y.to(a.device)), lambda a: repdl.ops.mm(a, y.to(a.device)), x)
    compare("div by 10", lambda a: torch.div(a, 10), lambda a: repdl.ops.div(a, 10), x)
    compare("sqrt", torch.sqrt, repdl.ops.sqrt, x)
    compare("softmax", lambda a: torch.softmax(a, 1), lambda a: repdl.ops.softmax(a, 1), x)
    compare("sum", lambda a: torch.sum(a, 1), lambda a: repdl.ops.sum(a, 1), x)
    print(f"SHA-256 of RepDL's product: {repdl.utils.get_hash(repdl.ops.mm(x, y))}")


if __name__ == "__main__":
    main()
