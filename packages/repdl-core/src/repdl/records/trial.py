"""One program in several settings: how many different results torch gives, and how many RepDL does."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import torch

from repdl.errors import RecordError
from repdl.records.compare import diff
from repdl.records.file import Record, read
from repdl.records.hashing import digest_of_bytes
from repdl.utils import table

_REFUSED = re.compile(r"^.*(?:UnsupportedError|UserWarning): (repdl\.enable: not reproducible: .*)$", re.MULTILINE)
Progress = Callable[[Sequence["Setting"]], Iterable["Setting"]]


@dataclass(frozen=True)
class Setting:
    """What differs between two runs of a program, and should change nothing."""

    name: str
    enabled: bool
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    setting: Setting
    status: int
    seconds: float
    megabytes: float
    """The most memory that it had."""
    path: Path
    """Of its record."""
    result: str | None
    """The digest of the parameters after each step of an optimizer; without one, of the outputs of modules."""
    errors: str
    """What it wrote to its standard error."""

    @property
    def refused(self) -> list[str]:
        """Messages about ops that are not reproducible."""
        return list(dict.fromkeys(_REFUSED.findall(self.errors)))


@dataclass(frozen=True)
class Trial:
    """What `repdl try` found."""

    outcomes: list[Outcome]
    parts: str = ""
    """Where two runs of torch part."""
    refused: list[str] = field(default_factory=list)

    def results(self, enabled: bool) -> set[str]:
        """The different results of torch alone, or under `repdl.enable()`."""
        return {o.result for o in self.outcomes if o.setting.enabled is enabled and o.result and o.status == 0}

    @property
    def status(self) -> int:
        """0: every run under `repdl.enable()` ended with one result; 1: not so; 2: the program fails by itself."""
        if any(o.status for o in self.outcomes if not o.setting.enabled):
            return 2
        ended = all(o.status == 0 for o in self.outcomes if o.setting.enabled)
        return 0 if ended and len(self.results(True)) == 1 else 1

    def as_json(self) -> dict[str, Any]:
        """For `repdl try --json`."""
        return {
            "runs": [
                {
                    "setting": o.setting.name, "enabled": o.setting.enabled, "variables": o.setting.variables,
                    "status": o.status, "seconds": round(o.seconds, 2), "megabytes": round(o.megabytes),
                    "result": o.result,
                }
                for o in self.outcomes
            ],
            "results": {"torch": len(self.results(False)), "repdl": len(self.results(True))},
            "torch_parts": self.parts or None,
            "refused": self.refused,
        }  # fmt: skip


def settings() -> list[Setting]:
    """Those of this machine: numbers of threads, and the instructions that kernels use."""
    many = max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)
    best = torch.backends.cpu.get_cpu_capability()
    kinds: list[tuple[str, str, dict[str, str]]] = [(f"{many} threads", str(many), {}), ("1 thread", "1", {})]
    if best in ("AVX2", "AVX512"):
        oldest = {"ATEN_CPU_CAPABILITY": "default", "REPDL_CPU_ISA": "baseline"}
        kinds.append((f"{many} threads, without {best}", str(many), oldest))
    return [
        Setting(name, enabled, {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **others})
        for enabled in (False, True)
        for name, threads, others in kinds
    ]


def try_program(
    program: str, arguments: Sequence[str], is_module: bool, folder: Path | None = None, progress: Progress = iter
) -> Trial:
    """Run a program in each of `settings`, by torch alone and under `repdl.enable()`, and compare the results.

    Args:
        program, arguments, is_module: as for `python`.
        folder: for records and what the runs print; default: one that is removed afterwards.
        progress: goes through the settings.
    """
    with ExitStack() as stack:
        folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        command = [*(["-m"] if is_module else []), program, *arguments]
        outcomes = []
        for number, setting in enumerate(progress(settings())):
            outcomes.append(_run(setting, command, folder / f"{number}.repdl"))
            if outcomes[-1].status and not setting.enabled:
                break  # it fails by itself
        messages: list[str] = []
        stopped = next((o for o in outcomes if o.setting.enabled and o.status and o.refused), None)
        if stopped is not None:  # once more, to the end
            every = _run(stopped.setting, command, folder / "all.repdl", "--on-uncovered", "warn").refused
            messages = every or stopped.refused
        return Trial(outcomes, _where_they_part(outcomes, command), messages)


def _run(setting: Setting, command: Sequence[str], path: Path, *options: str) -> Outcome:
    enable = ["--enable"] if setting.enabled else []
    recording = [sys.executable, "-m", "repdl", "record", "-o", str(path), "--level", "module", *enable, *options]
    written, errors = path.with_suffix(".out"), path.with_suffix(".err")
    begun = time.perf_counter()
    with written.open("wb") as out, errors.open("wb") as err:
        environment = os.environ | setting.variables
        process = Popen([*recording, *command], stdin=DEVNULL, stdout=out, stderr=err, env=environment)
        _, waited, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(waited)
    seconds = time.perf_counter() - begun
    text = errors.read_text(encoding="utf-8", errors="replace")
    return Outcome(setting, process.returncode, seconds, used.ru_maxrss / 1024, path, _result(path), text)


def _result(path: Path) -> str | None:
    try:
        record = read(path)
    except RecordError:
        return None
    return result_of(record)


def result_of(record: Record) -> str | None:
    """The digest of what a run computed, None if it had no step and no call of a module."""
    for kind in ("step", "module"):
        digests = [str(t.digest) for entry in record.entries if entry.kind == kind for t in entry.outputs]
        if digests:
            return f"{digest_of_bytes(' '.join(digests).encode()):016x}"
    return None


def _where_they_part(outcomes: Sequence[Outcome], command: Sequence[str]) -> str:
    """Of the first two runs of torch with different results: they run again, and the ops of the step are recorded."""
    ended = [o for o in outcomes if not o.setting.enabled and o.status == 0 and o.result]
    other = next((o for o in ended if o.result != ended[0].result), None)
    if other is None:
        return ""
    pair = ended[0], other
    findings = diff(*(o.path for o in pair)).findings
    entry = (findings[0].a or findings[0].b) if findings else None
    if entry is not None:
        options = "--level", "op", "--steps", f"{entry.step}:{entry.step + 1}"
        again = [_run(o.setting, command, o.path.with_suffix(".ops.repdl"), *options) for o in pair]
        findings = diff(*(o.path for o in again)).findings or findings
    return f"{pair[0].setting.name} and {pair[1].setting.name}: {findings[0].text}" if findings else ""


def report(trial: Trial) -> Iterator[str]:
    """Lines for people."""
    known: dict[str, str] = {}
    rows = [("by", "setting", "time", "memory", "result")]
    for o in trial.outcomes:
        name = known.setdefault(o.result, chr(ord("A") + len(known))) if o.result else "none"
        result = f"{name} {o.result or ''}".strip() if o.status == 0 else f"failed with status {o.status}"
        by = "repdl.enable()" if o.setting.enabled else "torch"
        rows.append((by, o.setting.name, f"{o.seconds:.1f} s", f"{o.megabytes:.0f} MB", result))
    yield table(rows)
    failed = next((o for o in trial.outcomes if o.status and not o.refused), None)
    if failed is not None:
        yield from ("", f"{failed.setting.name}: the program failed; the end of what it said:")
        yield from failed.errors.splitlines()[-8:]
    if trial.status == 2:
        return
    of_torch, ours = len(trial.results(False)), len(trial.results(True))
    yield f"\ntorch gives {_many(of_torch)}, repdl.enable() {_many(ours)}"
    if trial.parts:
        yield f"torch's runs part with {trial.parts}"
    for message in trial.refused:
        yield f"refused: {message}"


def _many(count: int) -> str:
    return "no result" if count == 0 else "one result" if count == 1 else f"{count} different results"


__all__ = ["Outcome", "Setting", "Trial", "report", "result_of", "settings", "try_program"]
