"""Runs every case of some families on tensors that end where memory does. Run by test_bounds.py."""

from __future__ import annotations

import sys

import repdl_cpu
from repdl.backend import get_backend
from repdl.testing import cases, run
from repdl.testing.guarded import on_guarded


def main(families: list[str]) -> None:
    ops = get_backend("cpu").ops
    made = [on_guarded(case) for family in families for case in cases(family) if not case.derived]
    for isa in repdl_cpu.supported_isas():
        with repdl_cpu.use_isa(isa):
            for case in made:
                run(case, "v1", ops[case.op])
    print(len(made), "cases")


if __name__ == "__main__":
    main(sys.argv[1:])
