"""benchmarks/: a table for each kind of processor; cuda_kernels.py without a GPU, on tensors that have no memory."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import repdl

FOLDER = Path(__file__).parents[1] / "benchmarks"
BOUNDS = {
    "mm 8192^3": 0.9,
    "mm 64x10, k = 802816": 0.5,
    "conv grad_weight 64->64 56^2 3x3 /1": 0.5,
    "MNIST conv1 grad_weight, deterministic": 0.5,
    "sum 16384^2 dim=0 / copy": 0.8,
    "softmax (8192, 1000)": 0.0,
    "tanh 2**26": 0.0,
    "Adam step, 1e7 parameters": 0.8,
}


@pytest.mark.skipif("cuda" in repdl.backends() and not repdl.backends()["cuda"].error, reason="there is a GPU")
def test_cuda_kernels__say_why_not() -> None:
    done = subprocess.run([sys.executable, FOLDER / "cuda_kernels.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "backend 'cuda' is " in done.stderr


def test_cuda_kernels__calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import cuda_kernels
    from table import on, time_rows

    def timer(call: Any, repeat: int) -> float:
        call()
        return 1.0

    works = (work for group in cuda_kernels.GROUPS.values() for work in on("meta", group()))
    # torch's fused steps take no such tensors.
    works = (replace(work, torchs=work.torchs[:1]) if "step" in work.name else work for work in works)
    rows = {row["work"]: row["bound"] for row in time_rows(works, 0.0, timer, mean_bound=0.0)}
    assert {name: rows[name] for name in BOUNDS} == BOUNDS


@pytest.mark.parametrize(
    ("script", "names"), [("mixed", ["lenet"]), ("whole_models", ["lstm, step", "lstm, inference"])]
)
def test_models__compared(script: str, names: list[str]) -> None:
    model = names[0].split(",")[0]
    command = [sys.executable, FOLDER / f"{script}.py", "--rounds", "1", "--seconds", "0.01", "--only", model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    figures = r"2 threads: torch [\d.]+ ms, repdl [\d.]+ ms, repdl / torch [\d.]+"
    for name in names:
        assert re.search(f"^{name}, {figures}$", done.stdout, re.M), done.stderr


def cpuinfo(vendor: str, family: int, model: int, flags: str = "fpu vme") -> str:
    kind: dict[str, object] = {"vendor_id": vendor, "cpu family": family, "model": model}
    fields = {"processor": 0, **kind, "model name": "A 12", "flags": flags}
    return "".join(f"{key}\t: {field}\n" for key, field in fields.items())


def test_processor__one_name_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from processor import processor

    kinds = {
        ("AuthenticAMD", 25, 0x01): "zen3",
        ("AuthenticAMD", 25, 0x11): "zen4",
        ("AuthenticAMD", 25, 0xA0): "zen4",
        ("AuthenticAMD", 26, 0x02): "zen5",
        ("GenuineIntel", 6, 143): "sapphire-rapids",
        ("GenuineIntel", 6, 207): "emerald-rapids",
        ("GenuineIntel", 6, 1): "genuineintel-6-1",
    }
    for kind, name in kinds.items():
        assert processor(cpuinfo(*kind)) == name
    assert processor(cpuinfo("GenuineIntel", 6, 167, "fpu amx_tile amx_int8")) == "intel-amx"
    assert processor(cpuinfo("GenuineIntel", 6, 143, "fpu amx_tile amx_int8")) == "sapphire-rapids"
    assert processor("", "arm64") == "arm64" and processor("") == "unknown"
    assert processor("processor : 0\nCPU part : 0xd40\n", "aarch64") == "aarch64"


def test_tables__lie_under_their_processor() -> None:
    tables = sorted((FOLDER.parent / "docs").glob("benchmarks/*/*.json"))
    assert tables
    for table in tables:
        assert json.loads(table.read_text())["processor"] == table.parent.name


def test_tables__have_a_page_for_each_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`nox -s docs` writes the pages; each table is on that of its processor, and each line in a group."""
    pytest.importorskip("matplotlib", reason="installed by `nox -s docs`")
    docs = FOLDER.parent / "docs"
    monkeypatch.syspath_prepend(docs)
    from builders import benchmarks

    shutil.copytree(docs / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("generated"))
    benchmarks.write(tmp_path)
    tables = sorted(tmp_path.glob("benchmarks/*/*.json"))
    for table in tables:
        assert f"]({table.parent.name}/{table.name})" in table.parent.with_suffix(".md").read_text()
    table.write_text(table.read_text().replace('"work": "mm 128^3 n"', '"work": "a new kernel"'))
    with pytest.raises(ValueError, match="no group takes the line 'a new kernel'"):
        benchmarks.groups(benchmarks.Table.read(table))
