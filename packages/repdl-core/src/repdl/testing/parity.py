"""The parity suite, one for all backends: every case, every contract, every way to run a backend.

A test module subclasses `ParityTests`, and pytest collects that class:

    class TestParity(ParityTests):
        backend = "mine"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from repdl.backend import get_backend
from repdl.families import family_of
from repdl.registry import OPS, implementations
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits, hex_digest
from repdl.testing.derivatives import wrong_derivatives
from repdl.testing.dtypes import NAMES
from repdl.testing.run import CONTRACTS, ODD_CONTRACTS, covers, run_on

Setting = Callable[[], AbstractContextManager[object]]
"""A way to run a backend: kernels called inside of what it returns run so, and what that gives names it."""


def check_settings(case: Case, backend: str, contract: str, settings: Sequence[Setting]) -> None:
    """Raise AssertionError unless `backend` gives the reference's bits in each setting; it names those that differ."""
    _raise(_differences(case, backend, contract, settings, run_on(case, contract, "reference")))


class ParityTests:
    """The reference's bits under v1 in every setting and under other contracts; the recorded bits; and that derivatives
    are the slopes of the values, of the ops of other projects: those of RepDL's own don't depend on a backend.

    One test for the cases of an op in a dtype, and for each of them the reference runs once a contract. The
    cases are those of every op that the backend implements, other projects' ops included; the recorded
    bits, where the family of the op has some.
    """

    backend: ClassVar[str]
    families: ClassVar[Sequence[str]] = ()
    """Only these families of ops; none: all."""
    settings: ClassVar[Sequence[Setting]] = (nullcontext,)
    """Those that each case runs in under v1."""
    for_contracts: ClassVar[Sequence[Setting]] = (nullcontext,)
    """Those under the other contracts: an order that is chosen meets few settings."""
    once: ClassVar[Collection[str]] = ()
    """Cases that take long, and run in the first setting only."""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """The parameter `of_op`: the cases of an op as they are written, or as they are made of those in a dtype."""
        known = [case for family in self.families for case in cases(family)] if self.families else cases()
        ops = implementations(get_backend(self.backend))
        groups: dict[str, list[Case]] = {}
        for case in known:
            if case.op in ops:
                dtype = "written" if case.derived is None else NAMES[case.derived]
                groups.setdefault(f"{case.op}__{dtype}", []).append(case)
        chosen = {name: group for name, group in groups.items() if any(covers(case, self.backend) for case in group)}
        metafunc.parametrize("of_op", chosen.values(), ids=chosen.keys())

    def test_parity__op(self, of_op: Sequence[Case]) -> None:
        found: list[AssertionError] = []
        for case in of_op:
            if covers(case, self.backend):
                try:
                    found += self._wrong(case)
                except Exception as error:
                    found.append(_raised(f"{case} on reference", error))
        if of_op and of_op[0].derived is None and OPS[of_op[0].op].distribution != "repdl-core":
            found += wrong_derivatives(of_op[0].op, of_op)
        _raise(found)

    def _wrong(self, case: Case) -> list[AssertionError]:
        """An error for each setting in which the backend gives other bits, and for other bits than recorded."""
        found: list[AssertionError] = []
        digests = {}
        for contract in (*CONTRACTS, *ODD_CONTRACTS) if OPS[case.op].has_order else CONTRACTS[:1]:
            expected = run_on(case, contract, "reference")
            settings = self.settings if contract == "v1" else self.for_contracts
            chosen = settings[:1] if str(case) in self.once else settings
            found += _differences(case, self.backend, contract, chosen, expected)
            digests[contract] = hex_digest(expected)
        golden = family_of(case.op).golden()
        if golden is not None:
            digests = {contract: digests.get(contract, digests["v1"]) for contract in CONTRACTS}
            recorded = golden.get(str(case))
            if digests != recorded:
                found.append(AssertionError(f"{case} on reference: digests {digests}, recorded {recorded}"))
        return found


def _differences(
    case: Case, backend: str, contract: str, settings: Sequence[Setting], expected: Any
) -> list[AssertionError]:
    """An error for each setting in which the backend gives other bits, or raises."""
    found = []
    for setting in settings:
        with setting() as where:
            what = f"{case} {contract} on {backend}, {where or 'default'}"
            try:
                assert_same_bits(run_on(case, contract, backend), expected, what)
            except AssertionError as error:
                found.append(error)
            except Exception as error:
                found.append(_raised(what, error))
    return found


def _raised(what: str, error: Exception) -> AssertionError:
    found = AssertionError(f"{what}: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def _raise(found: Sequence[AssertionError]) -> None:
    """One error that says what all say; its cause is the first one's."""
    if found:
        raise AssertionError("\n".join(map(str, found))) from found[0].__cause__
