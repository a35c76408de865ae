"""`repdl check`: what it says of a backend with the recorded bits, and of one with others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from repdl.cli import check
from repdl.registry import Backend, get_backend, register_backend, unregister_backend

REFERENCE = get_backend("reference").ops


def row(function: Callable[..., torch.Tensor], status: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The cells that are printed of a backend with this `neg`, and the reference's `cast`."""
    ops = {"neg": function, "cast": REFERENCE["cast"]}
    register_backend(Backend("small", "cpu", ops, describe=lambda: {"devices": "abacus"}))
    try:
        assert check(["small"]) == status
    finally:
        unregister_backend("small")
    return [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].strip("|").split("|")]


def test_check__row_of_the_parity_table(capsys: pytest.CaptureFixture[str]) -> None:
    neg = REFERENCE["neg"]
    good = row(neg, 0, capsys)
    _, name, machine, contracts, cases, wrong, digest = good
    assert (name, contracts, wrong) == ("small", "v1 and sequential", "0") and int(cases) > 0
    assert machine.endswith("devices abacus")
    bad = row(lambda input: neg(input).abs(), 1, capsys)
    assert int(bad[5]) > 0 and bad[6] != digest
