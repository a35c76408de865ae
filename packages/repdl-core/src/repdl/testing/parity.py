"""The parity suite, one for all backends: every case, every contract, every way to run a backend.

A test module subclasses `ParityTests`, and pytest collects that class:

    class TestParity(ParityTests):
        backend = "mine"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar

from repdl.backend import get_backend
from repdl.families import family_of
from repdl.registry import OPS, implementations
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits
from repdl.testing.run import CONTRACTS, ODD_CONTRACTS, check_golden, covers, run_on

Setting = Callable[[], AbstractContextManager[object]]
"""A way to run a backend: kernels called inside of what it returns run so."""


@cache
def expected(case: Case, contract: str) -> Any:
    """The reference's outputs, computed once."""
    return run_on(case, contract, "reference")


def check_settings(case: Case, backend: str, contract: str, settings: Sequence[Setting]) -> None:
    """Raise AssertionError unless `backend` gives the reference's bits in each setting."""
    for setting in settings:
        with setting() as where:
            actual = run_on(case, contract, backend)
        assert_same_bits(actual, expected(case, contract), f"{case} {contract} on {backend}, {where}")


class ParityTests:
    """The reference's bits under v1 in every setting and under other contracts; the recorded bits.

    The cases are those of every op that the backend implements, other projects' ops included;
    the recorded bits, where the family of the op has some.
    """

    backend: ClassVar[str]
    families: ClassVar[Sequence[str]] = ()
    """Only these families of ops; none: all."""
    settings: ClassVar[Mapping[str, Sequence[Setting]]] = {"default": (nullcontext,)}
    """Name of a test -> the settings in it."""
    for_contracts: ClassVar[Sequence[Setting]] = (nullcontext,)
    """The settings for the contracts beside v1: an order that is chosen meets few of them."""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """The parameters `case`, `setting` and `contract` of the tests that take them."""
        known = [case for family in self.families for case in cases(family)] if self.families else cases()
        ops = implementations(get_backend(self.backend))
        chosen = [case for case in known if case.op in ops and covers(case, self.backend)]
        if "contract" in metafunc.fixturenames:
            chosen = [case for case in chosen if "str contract" in OPS[case.op].schema]
            metafunc.parametrize("contract", ["sequential", *ODD_CONTRACTS])
        if "setting" in metafunc.fixturenames:
            metafunc.parametrize("setting", list(self.settings))
        if metafunc.function.__name__ == "test_parity__golden":
            chosen = [case for case in chosen if family_of(case.op).golden() is not None]
        metafunc.parametrize("case", chosen, ids=str)

    def test_parity__v1(self, case: Case, setting: str) -> None:
        check_settings(case, self.backend, "v1", self.settings[setting])

    def test_parity__contract(self, case: Case, contract: str) -> None:
        check_settings(case, self.backend, contract, self.for_contracts)

    def test_parity__golden(self, case: Case) -> None:
        for contract in CONTRACTS:
            check_golden(case, self.backend, contract)
