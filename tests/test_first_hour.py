"""The script for the first hour on a GPU: limits, log and report. Its parts are rehearsed by hand (CONTRIBUTING.md)."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "tools/gpu_first_hour.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a folder of its own in the place of build/gpu."""
    spec = importlib.util.spec_from_file_location("gpu_first_hour", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_first_hour", module)
    spec.loader.exec_module(module)
    for name in ("BUILD", "PACKED", "WHEELS", "SITE", "START"):
        monkeypatch.setattr(module, name, tmp_path / name)
    return module


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def part(script: ModuleType, into: Path, seconds: float, *stages: Any) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, report and log of a part of these stages."""
    script.WHEELS.mkdir(exist_ok=True)
    (script.WHEELS / "one.whl").touch()
    script.START.touch()
    script.build = lambda rehearse: script.Stage("build", 60, [python("print('built')")])
    script.PARTS = {1: lambda backend, rehearse: list(stages)}
    status = script.run_part(1, into, seconds, rehearse=True)
    return status, json.loads((into / "report_1.json").read_text())["stages"], (into / "log_1.txt").read_text()


def test_first_hour__stages(script: ModuleType, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    stages = [
        script.Stage("right", 60, [python("print('one')"), python("print('two')")]),
        script.Stage("wrong", 60, [python("print('three')"), python("raise SystemExit(3)")]),
        script.Stage("absent", 60, [["no-such-program"]]),
        script.Stage("gpu", 60, [python("")], needs_gpu=True),
        script.Stage("rows", 60, [python(f"open({str(rows)!r}, 'w').write('[1]')")], results=[rows]),
    ]
    status, report, log = part(script, tmp_path / "out", 100, *stages)
    assert status == 1
    assert [row["state"] for row in report] == [
        *("passed", "passed", "failed", "no no-such-program on this machine", "needs a GPU", "passed")
    ]
    assert report[2]["codes"] == [0, 3] and report[5]["results"] == {"rows": [1]}
    assert "[right 0] one\n" in log and "[right 1] two\n" in log and "[wrong 0] three\n" in log


def test_first_hour__limit(script: ModuleType, tmp_path: Path) -> None:
    """What a stage printed until its limit is kept, and its children end with it."""
    code = (
        "import subprocess, sys; print('begun'); subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    stages = [script.Stage("long", 6, [python(code)]), script.Stage("late", 600, [python("")])]
    status, report, log = part(script, tmp_path / "out", 12, *stages)
    assert status == 1 and "[long 0] begun\n" in log
    assert report[1]["state"] == "stopped at its limit" and report[1]["seconds"] < 60


def test_first_hour__nothing_packed(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no wheels; make it with `pack`"):
        script.run_part(1, tmp_path / "out", 100, rehearse=True)
