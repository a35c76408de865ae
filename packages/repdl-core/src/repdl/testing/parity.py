"""The parity suite, one for all backends: every case, every contract, every way to run a backend.

A test module subclasses `ParityTests`, and pytest collects that class:

    class TestParity(ParityTests):
        backend = "mine"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar
from unittest import SkipTest

from repdl.registry import OPS, implementations
from repdl.registry.backend import BACKENDS, get_backend
from repdl.registry.families import families, family_of
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits, hex_digest
from repdl.testing.derivatives import wrong_derivatives
from repdl.testing.dtypes import NAMES
from repdl.testing.environment import ENVIRONMENTS
from repdl.testing.run import CONTRACTS, ODD_CONTRACTS, covers, run_on

Setting = Callable[[], AbstractContextManager[object]]
"""A way to run a backend: kernels called inside of what it returns run so, and what that gives names it."""


def check_settings(case: Case, backend: str, contract: str, settings: Sequence[Setting]) -> None:
    """Raise AssertionError unless `backend` gives the reference's bits in each setting; it names those that differ."""
    _raise(_differences(case, backend, contract, settings, _Expected(case, contract, None)))


class ParityTests:
    """The reference's bits under v1 in every setting and under other contracts; the recorded bits; and that derivatives
    are the slopes of the values, of the ops of other projects: those of RepDL's own don't depend on a backend.

    One test for the cases of an op in a dtype, and for each of them the reference runs once a contract. The
    cases are those of every op that the backend implements, other projects' ops included; the recorded
    bits, where the family of the op has some.
    """

    backend: ClassVar[str]
    families: ClassVar[Sequence[str]] = ()
    """Only these families of ops, each of which must have something to compare; none: all."""
    settings: ClassVar[Sequence[Setting]] = ENVIRONMENTS
    """Those that each case runs in under v1: by default every floating-point environment that a caller may have set."""
    for_contracts: ClassVar[Sequence[Setting]] = (nullcontext,)
    """Those under the other contracts: an order that is chosen meets few settings."""
    once: ClassVar[Collection[str]] = ()
    """Cases that take long, and run in the first setting only; of a suite that trusts recorded bits, under the recorded
    contracts only."""
    without: ClassVar[Collection[str]] = ()
    """Cases that another suite runs."""
    trusts_recorded: ClassVar[bool] = False
    """Whether recorded bits are taken for the reference's, which then runs for other contracts, and where bits differ:
    for a suite beside another one, which has run it."""

    whole: ClassVar[bool] = True
    """Whether cases that are made of others in another dtype, and ops that are formulas over the backend's kernels, run
    as all others do. Else they run under the recorded contracts only, and their recorded bits are taken for the
    reference's: for a suite beside one that is whole."""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """The parameter `of_op`: the cases of an op as they are written, or as they are made of those in a dtype.

        Of families that are named, what can't be compared is there, too: an op or a dtype that the backend lacks is
        skipped, and a family with nothing to compare fails.
        """
        found = _groups(self.backend, self.families)
        metafunc.parametrize("of_op", found.values(), ids=found.keys())

    def test_parity__op(self, of_op: Sequence[Case] | Exception) -> None:
        if isinstance(of_op, Exception):
            raise of_op
        found: list[AssertionError] = []
        for case in of_op:
            if covers(case, self.backend) and str(case) not in self.without:
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
        golden = family_of(case.op).golden()
        recorded = None if golden is None else golden.get(str(case))
        is_long = str(case) in self.once and self.trusts_recorded
        is_made = case.derived is not None or case.op not in BACKENDS.kernels(get_backend(self.backend))
        is_brief = bool(recorded) and (is_long or (is_made and not self.whole))
        odd = () if is_brief else ODD_CONTRACTS
        for contract in (*CONTRACTS, *odd) if OPS[case.op].has_order else CONTRACTS[:1]:
            trusted = recorded.get(contract) if recorded and (is_brief or self.trusts_recorded) else None
            expected = _Expected(case, contract, trusted)
            settings = self.settings if contract == "v1" else self.for_contracts
            chosen = settings[:1] if str(case) in self.once else settings
            found += _differences(case, self.backend, contract, chosen, expected)
            digests[contract] = expected.digest
        if golden is not None:
            digests = {contract: digests.get(contract, digests["v1"]) for contract in CONTRACTS}
            if digests != recorded:
                found.append(AssertionError(f"{case} on reference: digests {digests}, recorded {recorded}"))
        return found


class _Expected:
    """The reference's bits, which it computes when they are asked for.

    Args:
        digest: what they are taken to be as long as everybody has them; None: unknown.
    """

    def __init__(self, case: Case, contract: str, digest: str | None) -> None:
        self._run = partial(run_on, case, contract, "reference")
        self._trusted = digest

    @cached_property
    def bits(self) -> Any:
        self._trusted = None
        return self._run()

    @property
    def digest(self) -> str:
        return self._trusted or hex_digest(self.bits)

    def check(self, actual: Any, what: str) -> None:
        """Raise AssertionError for other bits."""
        if self._trusted is None or hex_digest(actual) != self._trusted:
            assert_same_bits(actual, self.bits, what)


Group = Sequence[Case] | Exception
"""Cases, or what is to be raised where there are none."""


def _groups(backend: str, named: Sequence[str]) -> dict[str, Group]:
    """What a suite runs, by the names of its tests."""
    if not named:
        groups = _groups_of(cases(), backend, [op for op in implementations(get_backend(backend)) if op in OPS])
        found = {name: group for name, group in groups.items() if not isinstance(group, _NoKernel)}
        return found or {backend: AssertionError(f"{backend}: nothing to compare: it has no op with cases")}
    found = {}
    for family in named:
        if family not in families():
            found[family] = AssertionError(f"{family}: no family of ops of that name; `repdl ops` lists the ops")
            continue
        groups = _groups_of(cases(family), backend, [op.name for op in OPS.values() if op.family == family])
        if all(isinstance(group, Exception) for group in groups.values()):
            reasons = "; ".join(map(str, groups.values()))
            groups = {family: AssertionError(f"{family}: nothing to compare on {backend}: {reasons}")}
        found |= groups
    return found


class _NoKernel(SkipTest):
    """A backend has no kernel of an op, or none in a dtype."""


def _groups_of(known: Iterable[Case], backend: str, ops: Sequence[str]) -> dict[str, Group]:
    """The cases of ops, apart for those that are written and those made of them in each dtype."""
    implemented = implementations(get_backend(backend))
    by_op: dict[str, dict[str, list[Case]]] = {op: {} for op in ops}
    for case in known:
        if case.op in by_op:
            dtype = "written" if case.derived is None else NAMES[case.derived]
            by_op[case.op].setdefault(f"{case.op}__{dtype}", []).append(case)
    found: dict[str, Group] = {}
    for op, groups in by_op.items():
        if op not in implemented:
            found[op] = _NoKernel(f"{op}: not implemented by {backend}")
        elif not groups:
            found[op] = SkipTest(f"{op}: no cases")
        else:
            for name, group in groups.items():
                covered = any(covers(case, backend) for case in group)
                found[name] = group if covered else _NoKernel(f"{name}: {backend} has no kernel in this dtype")
    return found


def _differences(
    case: Case, backend: str, contract: str, settings: Sequence[Setting], expected: _Expected
) -> list[AssertionError]:
    """An error for each setting in which the backend gives other bits, or raises."""
    found = []
    for setting in settings:
        made = case.make()  # outside: arithmetic of the case itself would differ inside
        prepared = replace(case, make=partial(tuple, made))
        with setting() as where:
            what = f"{case} {contract} on {backend}, {where or 'default'}"
            try:
                actual = run_on(prepared, contract, backend)
            except Exception as error:
                found.append(_raised(what, error))
                continue
        try:
            expected.check(actual, what)
        except AssertionError as error:
            found.append(error)
    return found


def _raised(what: str, error: Exception) -> AssertionError:
    found = AssertionError(f"{what}: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def _raise(found: Sequence[AssertionError]) -> None:
    """One error that says what all say; its cause is the first one's."""
    if found:
        raise AssertionError("\n".join(map(str, found))) from found[0].__cause__
