"""Two commits of RepDL on this machine: how long each kernel takes, before and after.

    python benchmarks/compare.py main~5                      # with the last commit
    python benchmarks/compare.py main~5 . --only mm,conv     # with the working tree (the files that git knows)
    python benchmarks/compare.py v0.1.0 main --json FILE

Each commit is built into build/compare once, its kernels for this processor alone. Runs of benchmarks/kernels.py, of
this tree for both, take turns; medians over the rounds count. A ratio of more than 1 means that it became faster. How
much torch's own times differ between the two shows what differences mean nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

ROOT = Path(__file__).parents[1]
PACKAGES = ("repdl-core", "repdl-cpu", "repdl-nn", "repdl-optim")
Times = dict[str, list[tuple[float, float]]]
"""Work -> torch's and our milliseconds, a pair a round."""


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit_of(name: str) -> str:
    """The working tree is a commit too, which nothing refers to."""
    return (
        (git("stash", "create") or git("rev-parse", "HEAD")) if name == "." else git("rev-parse", f"{name}^{{commit}}")
    )


def built(commit: str) -> Path:
    """The folder with the packages of a commit, installed."""
    folder = ROOT / "build/compare" / commit[:12]
    site = folder / "site"
    if (folder / "done").exists():
        return site
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(source)], stdin=archive.stdout, check=True)
    if archive.wait() != 0:
        raise SystemExit(f"git archive {commit} failed")
    # In one call: --target replaces a folder that is there, and three of them share the folder `repdl`.
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(site)]
    paths = [str(source / "packages" / package) for package in PACKAGES]
    subprocess.run([*install, "-Ccmake.define.REPDL_CPU_ISAS=native", *paths], check=True)
    (folder / "done").touch()
    return site


def measure(site: Path, options: list[str], times: Times) -> None:
    """A run of the benchmark by what is installed there."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernels.json"
        command = [sys.executable, str(ROOT / "benchmarks/kernels.py"), *options, "--json", str(made)]
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} with {site} failed:\n{done.stderr}")
        for row in json.loads(made.read_text())["rows"]:
            if "ours_ms" in row:
                times.setdefault(row["work"], []).append((row["torch_ms"], row["ours_ms"]))


def medians(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(t for t, _ in pairs), statistics.median(o for _, o in pairs)


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit, or . for the working tree")
    parser.add_argument("after", nargs="?", default="HEAD", help="the same (default: HEAD)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--only", help="as of kernels.py")
    parser.add_argument("--match", help="the same")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for a line (default: 1)")
    args = parser.parse_args()
    options = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    options += [word for name in ("only", "match") if (value := getattr(args, name)) for word in (f"--{name}", value)]
    commits = [commit_of(args.before), commit_of(args.after)]
    sites = [built(commit) for commit in commits]
    times: list[Times] = [{}, {}]
    for n in tqdm(range(args.rounds), desc="rounds"):
        for which in (0, 1) if n % 2 == 0 else (1, 0):
            measure(sites[which], options, times[which])
    rows: list[dict[str, Any]] = []
    print(f"{'work':45} {'before ms':>10} {'after ms':>10} {'ratio':>6} {'torch':>6}")
    for work in [w for w in times[0] if w in times[1]]:
        (torch_before, before), (torch_after, after) = (medians(t[work]) for t in times)
        rows.append({"work": work, "before_ms": before, "after_ms": after, "torch": torch_before / torch_after})
        print(f"{work:45} {before:10.3f} {after:10.3f} {before / after:6.2f} {torch_before / torch_after:6.2f}")
    if not rows:
        raise SystemExit("compare: the commits have no work in common")
    means = [geometric_mean([r["before_ms"] / r["after_ms"] for r in rows]), geometric_mean([r["torch"] for r in rows])]
    print(f"{f'geometric mean of {len(rows)}':45} {'':10} {'':10} {means[0]:6.2f} {means[1]:6.2f}")
    if args.json:
        args.json.write_text(json.dumps({"before": commits[0], "after": commits[1], "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
