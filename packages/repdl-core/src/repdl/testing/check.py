"""What `repdl check` finds out: a backend's bits against the golden ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.registry.families import Family
from repdl.testing.cases import Case, with_derived, written
from repdl.testing.compare import difference, hex_digest
from repdl.testing.derivatives import has_slope, wrong_derivatives
from repdl.testing.run import CONTRACTS, covers, digests, run_on

Progress = Callable[[Sequence[Case], str], Iterable[Case]]
"""Goes through cases, showing how far it is; the text says of what."""


EXPLAINED = 20
"""So many digests that differ, of a report, are explained by an element, for which the reference computes the case."""


@dataclass
class Wrong:
    """A case under a contract that raised `error`, or whose digest is not the recorded one.

    `difference` names the first element, if it was looked for and the reference gives the recorded bits.
    """

    case: str
    contract: str
    digest: str | None = None
    recorded: str | None = None
    difference: str | None = None
    error: str | None = None

    def __str__(self) -> str:
        if self.difference is not None:
            return f"{self.case} {self.contract}{self.difference}"
        return f"{self.case} {self.contract}: {self.error or f'digest {self.digest}, recorded {self.recorded}'}"


@dataclass
class Report:
    """What came out for the ops of one distribution on one backend.

    Args:
        families: those with cases that were compared.
        lacking: the ops of the families that the backend does not implement.
        compared: the number of cases whose digests were compared with recorded ones.
        uncovered: the number of those in dtypes that the backend has no kernel for.
        wrong: each digest that differs, and each case that raised.
        missing: a line for each op or family that could not be compared: no cases, no golden bits.
        broken: a line for each family whose files raised; nothing of it was compared.
        derivatives: the number of ops of other projects whose derivatives were compared with differences.
        no_slopes: a line for each derivative that differs, or could not be compared.
        digest: SHA-256 over the digests of all compared cases.
    """

    distribution: str
    families: set[str] = field(default_factory=set)
    lacking: list[str] = field(default_factory=list)
    compared: int = 0
    uncovered: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    derivatives: int = 0
    no_slopes: list[str] = field(default_factory=list)
    digest: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.wrong or self.broken or self.no_slopes)


def check_backend(
    name: str,
    families: Iterable[Family],
    progress: Progress,
    most: int | None = None,
    contracts: Sequence[str] = CONTRACTS,
) -> Iterator[Report]:
    """A report for each distribution whose ops the backend implements; at most so many cases of each op."""
    ops = implementations(get_backend(name)).keys()
    by_distribution: dict[str, list[Family]] = {}
    for family in families:
        by_distribution.setdefault(family.distribution, []).append(family)
    for distribution, given in by_distribution.items():
        of_families = [op for family in given for op in OPS.values() if op.family == family.name]
        lacking = [op.name for op in of_families if op.name not in ops]
        if len(lacking) == len(of_families):
            continue
        report = Report(distribution, lacking=lacking)
        chosen = [family for family in given if any(op.family == family.name and op.name in ops for op in of_families)]
        known = [case for family in chosen for case in _comparable(family, ops, report)]
        _compare(name, _first(known, most), contracts, report, progress)
        if distribution != "repdl-core":  # the derivatives of RepDL's own ops depend on no machine
            _compare_derivatives(known, report)
        yield report


def _comparable(family: Family, ops: Iterable[str], report: Report) -> list[Case]:
    """The cases of a family that have golden bits; what it lacks goes into the report."""
    try:
        known, recorded = with_derived(written(family) or []), family.golden()
    except Exception as error:
        report.broken.append(f"{family.name}: {type(error).__name__}: {error}")
        return []
    mine = [op.name for op in OPS.values() if op.family == family.name and op.name in ops]
    report.missing += [f"{op}: no cases" for op in mine if all(case.op != op for case in known)]
    if known and recorded is None:
        report.missing.append(f"{family.name}: no golden bits")
        return []
    return [case for case in known if case.op in mine]


def _first(known: Sequence[Case], most: int | None) -> list[Case]:
    """At most so many of each op."""
    seen: Counter[str] = Counter()
    chosen = []
    for case in known:
        seen[case.op] += 1
        if most is None or seen[case.op] <= most:
            chosen.append(case)
    return chosen


def _compare_derivatives(known: Sequence[Case], report: Report) -> None:
    for op in dict.fromkeys(case.op for case in known):
        if has_slope(op):
            report.derivatives += 1
            report.no_slopes += map(str, wrong_derivatives(op, known))
        elif OPS[op].differentiable:
            report.missing.append(f"{op}: its derivative, which the op declares not to be the slope")


def _compare(backend: str, todo: Sequence[Case], contracts: Sequence[str], report: Report, progress: Progress) -> None:
    lines = []
    for case in progress(todo, f"{backend}, {report.distribution}"):
        if not covers(case, backend):
            report.uncovered += 1
            continue
        report.compared += 1
        report.families.add(OPS[case.op].family)
        for contract in contracts:
            try:
                actual, recorded = digests(case, backend, contract)
            except Exception as error:
                report.wrong.append(Wrong(str(case), contract, error=f"{type(error).__name__}: {error}"))
                continue
            lines.append(f"{case} {contract} {actual}\n")
            if actual != recorded:
                explained = _difference(case, backend, contract, recorded) if len(report.wrong) < EXPLAINED else None
                report.wrong.append(Wrong(str(case), contract, actual, recorded, explained))
    report.digest = sha256("".join(sorted(lines)).encode()).hexdigest()


def _difference(case: Case, backend: str, contract: str, recorded: str | None) -> str | None:
    """The first element that differs from the reference, if that gives the recorded bits."""
    try:
        expected = run_on(case, contract, "reference")
        if hex_digest(expected) == recorded:
            return difference(run_on(case, contract, backend), expected)
    except Exception:  # an op that the reference lacks or cannot compute: the digests say what there is to say
        return None
    return None
