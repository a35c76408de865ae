"""Logits of language models by every way of computing them (examples/same_logits.py): one set of bits."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import repdl
from repdl.testing import processes

ROOT = Path(__file__).parents[1]
ISAS = repdl.backends()["cpu"].details.get("supported", "").split() if "cpu" in repdl.backends() else []


def printed(*options: str, **environment: str) -> str:
    done = processes.python(ROOT / "examples/same_logits.py", *options, environment={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("isa", ISAS)
def test_same_logits__every_way(isa: str) -> None:
    pytest.importorskip("transformers", reason="installed by `nox -s nightly`")
    said = printed("--threads", "1" if isa == "baseline" else "2", REPDL_CPU_ISA=isa)
    assert said == (ROOT / "docs/gallery/same_logits.txt").read_text()
    assert {*re.findall(r": (\d+) differ", said)} == {"0"}


@pytest.mark.nightly
def test_same_logits__torch_alone_differs() -> None:
    pytest.importorskip("transformers", reason="installed by `nox -s nightly`")
    assert {*re.findall(r": (\d+) differ", printed("--plain"))} > {"0"}
