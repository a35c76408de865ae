"""The parity suite itself: what it runs, how often, and what a failure names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import SkipTest

import pytest
import torch

from repdl.registry import OPS
from repdl.registry.backend import BACKENDS, Backend, get_backend, register_backend, unregister_backend
from repdl.testing import CONTRACTS, ODD_CONTRACTS, Case, cases, uniform
from repdl.testing.environment import DIRECTIONS, can_flush
from repdl.testing.parity import ParityTests, check_settings

CASE = next(case for case in cases("sum") if case.name == "row_65")
MISTAKEN: set[tuple[str, str]] = set()
"""The settings and contracts in which the backend of these tests is wrong."""
now = "none"


@contextmanager
def setting(name: str) -> Iterator[str]:
    global now
    before, now = now, name
    yield name
    now = before


class Metafunc:
    """What pytest gives to `pytest_generate_tests`."""

    def parametrize(self, name: str, values: Iterable[list[Case] | Exception], ids: Iterable[str]) -> None:
        assert name == "of_op"
        self.groups = dict(zip(ids, values, strict=True))


class Suite(ParityTests):
    __test__ = False
    backend = "mistaken"
    settings = [partial(setting, name) for name in ("one", "two", "three")]
    for_contracts = [partial(setting, name) for name in ("one", "two")]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The contracts of the reference's calls, while the backend `mistaken` is there."""
    reference = get_backend("reference")
    right = reference.ops["sum"]
    made: list[str] = []

    def counted(input: torch.Tensor, dim: list[int], keepdim: bool, contract: str) -> Any:
        made.append(contract)
        return right(input, dim, keepdim, contract)

    def mistaken(input: torch.Tensor, dim: list[int], keepdim: bool, contract: str) -> Any:
        return right(input, dim, keepdim, contract) + (1 if (now, contract) in MISTAKEN else 0)

    monkeypatch.setitem(reference.ops, "sum", counted)
    register_backend(Backend("mistaken", "cpu", {"sum": mistaken}, priority=-1000))
    yield made
    MISTAKEN.clear()
    unregister_backend("mistaken")


def test_parity_suite__the_reference_runs_once_a_contract(calls: list[str]) -> None:
    Suite().test_parity__op([CASE])
    assert calls == [*CONTRACTS, *ODD_CONTRACTS]


def test_parity_suite__names_case_contract_and_setting(calls: list[str]) -> None:
    MISTAKEN.update({("three", "v1"), ("one", "sequential"), ("two", ODD_CONTRACTS[1])})
    with pytest.raises(AssertionError) as caught:
        Suite().test_parity__op([CASE])
    lines = str(caught.value).splitlines()
    expected = [("v1", "three"), ("sequential", "one"), (ODD_CONTRACTS[1], "two")]
    assert len(lines) == 3
    for line, (contract, where) in zip(lines, expected):
        assert line.startswith(f"sum__row_65 {contract} on mistaken, {where} output 0: 2 of 2 elements differ")


@pytest.mark.parametrize("contract", [*CONTRACTS, *ODD_CONTRACTS])
def test_parity_suite__every_setting_is_compared(contract: str, calls: list[str]) -> None:
    for name in ("one", "two", "three") if contract == "v1" else ("one", "two"):
        MISTAKEN.clear()
        MISTAKEN.add((name, contract))
        with pytest.raises(AssertionError, match=f"^sum__row_65 {contract} on mistaken, {name} output"):
            Suite().test_parity__op([CASE])


def test_parity_suite__recorded_bits(calls: list[str]) -> None:
    unrecorded = Case("sum", "unrecorded", CASE.make)
    with pytest.raises(AssertionError, match="^sum__unrecorded on reference: digests {.*}, recorded None$"):
        Suite().test_parity__op([unrecorded])
    other = Case("sum", "row_65", lambda: (uniform(9, 2, 65), [1], False))
    with pytest.raises(AssertionError, match="^sum__row_65 on reference: digests {.*}, recorded {.*}$"):
        Suite().test_parity__op([CASE, other])


class Trusting(Suite):
    trusts_recorded = True


def test_parity_suite__recorded_bits_are_trusted(calls: list[str]) -> None:
    Trusting().test_parity__op([CASE])
    assert calls == [*ODD_CONTRACTS]


class Brief(Suite):
    whole = False


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(None, (*CONTRACTS, *ODD_CONTRACTS)), (torch.float64, ()), (torch.bfloat16, ())],
)
def test_parity_suite__derived_cases_of_a_brief_suite(
    calls: list[str], dtype: torch.dtype | None, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(BACKENDS), "has_kernel", lambda *call: True)  # float64, too
    case = next(case for case in cases("sum") if case.op == "sum" and case.derived is dtype)
    Brief().test_parity__op([case])
    assert calls == [*expected]


def test_parity_suite__trusted_bits_that_differ(calls: list[str]) -> None:
    """The reference says then who is wrong."""
    MISTAKEN.update({("three", "v1"), ("one", ODD_CONTRACTS[1])})
    with pytest.raises(AssertionError) as caught:
        Trusting().test_parity__op([CASE])
    assert [line.partition(" output")[0] for line in str(caught.value).splitlines()] == [
        "sum__row_65 v1 on mistaken, three",
        f"sum__row_65 {ODD_CONTRACTS[1]} on mistaken, one",
    ]
    assert calls == ["v1", *ODD_CONTRACTS]
    MISTAKEN.clear()
    other = Case("sum", "row_65", lambda: (uniform(9, 2, 65), [1], False))
    with pytest.raises(AssertionError, match="^sum__row_65 on reference: digests {.*}, recorded {.*}$"):
        Trusting().test_parity__op([other])


def test_parity_suite__an_exception_names_the_setting(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ValueError("no kernel")

    monkeypatch.setitem(get_backend("mistaken").ops, "sum", broken)
    with pytest.raises(AssertionError, match="^sum__row_65 v1 on mistaken, two: ValueError: no kernel$") as caught:
        check_settings(CASE, "mistaken", "v1", [partial(setting, "two")])
    assert isinstance(caught.value.__cause__, ValueError)


def test_parity_suite__a_case_that_raises_is_named(calls: list[str]) -> None:
    wrong = Case("sum", "wrong", lambda: (1 / 0,))
    with pytest.raises(AssertionError, match="^sum__wrong on reference: ZeroDivisionError: division by zero$"):
        Suite().test_parity__op([CASE, wrong, CASE])


def test_parity_suite__collects_what_the_backend_has(calls: list[str]) -> None:
    metafunc = Metafunc()
    Suite().pytest_generate_tests(metafunc)
    known = [case for case in cases("sum") if case.op == "sum" and case.derived is not torch.float64]
    # A formula of no ops needs no kernel.
    known += [case for case in cases() if OPS[case.op].formula is not None and not OPS[case.op].calls]
    assert {str(case) for group in metafunc.groups.values() for case in group} == {str(case) for case in known}
    assert {"sum__written", "sum__bf16", "sum__f16"} <= metafunc.groups.keys(), "no kernel for float64 is claimed"
    for name, group in metafunc.groups.items():
        assert {case.op for case in group} == {name.partition("__")[0]}


def test_parity_suite__names_what_it_does_not_compare(calls: list[str]) -> None:
    """An op, or a dtype, that the backend lacks is skipped; a family with nothing to compare fails."""

    class Named(Suite):
        families = ["sum", "matmul", "max", "nosuch"]

    get_backend("mistaken").ops["max"] = get_backend("reference").ops["max"]
    metafunc = Metafunc()
    Named().pytest_generate_tests(metafunc)
    groups = metafunc.groups
    assert {name for name, group in groups.items() if not isinstance(group, Exception)} == {
        "sum__written", "sum__bf16", "sum__f16", "max__written", "max__bf16", "max__f16",
        "sort__written", "sort__bf16", "sort__f16", "sort__f64",  # a formula that calls no op
    }  # fmt: skip
    expected = {
        "sum__f64": (SkipTest, "sum__f64: mistaken has no kernel in this dtype"),
        "max_backward": (SkipTest, "max_backward: not implemented by mistaken"),
        "matmul": (AssertionError, "matmul: nothing to compare on mistaken: matmul: not implemented by mistaken"),
        "nosuch": (AssertionError, "nosuch: no family of ops of that name; `repdl ops` lists the ops"),
    }
    for name, (kind, text) in expected.items():
        with pytest.raises(kind, match=f"^{text}$"):
            Named().test_parity__op(groups[name])


@pytest.mark.skipif(not (DIRECTIONS and can_flush()), reason="this processor's environments are not written down here")
def test_parity_suite__runs_in_every_environment() -> None:
    """By default: a kernel that computes as the caller has set the processor is wrong in each but the first."""

    class Bare(ParityTests):
        __test__ = False
        backend = "bare"

    values = torch.cat([uniform(1, 30), torch.tensor([1.5 * 2.0**-126])])
    case = Case("mul", "rounded", lambda: (values, torch.cat([uniform(2, 30), torch.tensor([0.5])])))
    register_backend(Backend("bare", "cpu", {"mul": lambda a, b, contract: a * b}, priority=-1000))
    try:
        with pytest.raises(AssertionError) as caught:
            Bare().test_parity__op([case])
    finally:
        unregister_backend("bare")
    lines = [line for line in str(caught.value).splitlines() if " on bare, " in line]
    wrong = [line.partition(" on bare, ")[2].partition(" output")[0] for line in lines]
    assert wrong == ["with flush-to-zero", *(f"rounding {direction}" for direction in DIRECTIONS)]
