"""Write docs/gallery: what the examples print, and the losses of examples/loss_curves.py under several settings.

    python tools/gallery.py

Needs scikit-learn and transformers. Tests compare the lines of RepDL with what the examples print now; those of torch
alone are of the machine that ran this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
INTO = ROOT / "docs/gallery"
PRINTED = "reproducible_ops", "mnist_training", "one_seed", "models", "loss_curves", "same_logits"
RUNS = [
    ("torch alone", "AVX2, 1 thread", {"ATEN_CPU_CAPABILITY": "avx2"}, ["--plain", "--threads", "1"]),
    ("torch alone", "AVX2, 2 threads", {"ATEN_CPU_CAPABILITY": "avx2"}, ["--plain", "--threads", "2"]),
    ("torch alone", "baseline, 1 thread", {"ATEN_CPU_CAPABILITY": "default"}, ["--plain", "--threads", "1"]),
    ("repdl.enable()", "AVX2, 1 thread", {"REPDL_CPU_ISA": "avx2"}, ["--threads", "1"]),
    ("repdl.enable()", "baseline, 2 threads", {"REPDL_CPU_ISA": "baseline"}, ["--threads", "2"]),
]
"""Who computes, the setting in words, environment and options."""


def printed(example: str, *options: str, **environment: str) -> str:
    """What an example prints."""
    command = [sys.executable, str(ROOT / f"examples/{example}.py"), *options]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def run(by: str, setting: str, environment: dict[str, str], options: list[str]) -> dict[str, Any]:
    """The losses of a setting."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "losses.json"
        printed("loss_curves", *options, "--json", str(path), **environment)
        return {"by": by, "setting": setting, **json.loads(path.read_text())}


def main() -> None:
    INTO.mkdir(exist_ok=True)
    for example in PRINTED:
        (INTO / f"{example}.txt").write_text(printed(example))
    (INTO / "same_logits_plain.txt").write_text(printed("same_logits", "--plain"))
    command = [sys.executable, str(ROOT / "benchmarks/processor.py")]
    processor = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    about = {"processor": processor, "torch": torch.__version__}
    runs = ",\n".join(json.dumps(run(*setting)) for setting in RUNS)
    (INTO / "loss_curves.json").write_text(json.dumps(about)[:-1] + f', "runs": [\n{runs}\n]}}\n')


if __name__ == "__main__":
    main()
