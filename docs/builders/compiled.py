"""The section of docs/benchmark.md on compiled steps: pictures and tables of docs/benchmarks/compiled-*.json."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from builders.benchmarks import title
from builders.pictures import Theme, markdown, plain_axes, save

SIDES = {"inductor": "s", "repdl": "o", "compiled": "D"}
"""Whose time is compared with torch's, and how the picture marks it."""


@dataclass(frozen=True)
class Steps:
    """A table that benchmarks/compiled.py wrote."""

    path: Path
    about: dict[str, Any]

    @property
    def models(self) -> dict[str, Any]:
        """Name -> its figures."""
        found: dict[str, Any] = self.about["models"]
        return found

    def ratios(self, side: str) -> list[float]:
        """Of each model."""
        return [of["ratio to torch"][side] for of in self.models.values()]

    def mean(self, side: str) -> float:
        """The geometric one."""
        return statistics.geometric_mean(self.ratios(side))


def draw(figure: Figure, theme: Theme, steps: Steps) -> None:
    """A row for each model, a mark for each side, and where torch is."""
    axes = figure.add_subplot()
    colours = {"inductor": theme.orange, "repdl": theme.faint, "compiled": theme.blue}
    rows = [*steps.models, "geometric mean"]
    for side, marker in SIDES.items():
        values = [*steps.ratios(side), steps.mean(side)]
        axes.plot(values, range(len(rows)), marker, markersize=6, color=colours[side], mew=0, label=side)
    axes.axvline(1.0, color=theme.ink, linewidth=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("time / torch's (left: faster than torch)", loc="right")
    legend = figure.legend(loc="outside upper center", ncols=len(SIDES), frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
    plain_axes(axes, theme)


def section(steps: Steps, pictures: Path) -> str:
    """Picture and table."""
    processor, threads = title(steps.about["processor"]), steps.about["threads"]
    stem = steps.path.stem
    save(lambda figure, theme: draw(figure, theme, steps), 0.24 * len(steps.models) + 1.1, pictures / stem)
    heading = f"{processor}, {threads} thread{'s' if threads > 1 else ''}"
    means = ", ".join(f"{side} {steps.mean(side):.2f}" for side in SIDES)
    alt = f"{heading}: training steps of {len(steps.models)} models, time divided by torch's; geometric means: {means}"
    rows = [
        f"| {name} | {of['milliseconds']['torch']:.1f} | "
        + " | ".join(f"{of['ratio to torch'][side]:.2f}" for side in SIDES)
        + " | "
        + " | ".join(f"{of['seconds of the first step'][side]:.1f}" for side in ("inductor", "compiled"))
        + " |"
        for name, of in steps.models.items()
    ]
    rows.append("| geometric mean | | " + " | ".join(f"{steps.mean(side):.2f}" for side in SIDES) + " | | |")
    header = f"| model | torch, ms | {' | '.join(SIDES)} | first step, s: inductor | compiled |"
    table = "\n".join([header, "| --- |" + " --: |" * 6, *rows])
    where = f"torch {steps.about['torch']}. All numbers: [{steps.path.name}](benchmarks/{steps.path.name})."
    return "\n\n".join([f"### {heading}", where, markdown(f"benchmarks/{pictures.name}/{stem}", alt), table])


def write(docs: Path) -> None:
    """Into docs/benchmarks/generated, which `benchmarks.write` has made."""
    root = docs / "benchmarks"
    tables = [Steps(path, json.loads(path.read_text())) for path in root.glob("compiled-*.json")]
    tables.sort(key=lambda steps: (title(steps.about["processor"]), steps.about["threads"]))
    parts = [section(steps, root / "generated") for steps in tables]
    (root / "generated/compiled.md").write_text("\n\n".join(parts) + "\n")
