"""The picture of docs/gallery.md: the losses that tools/gallery.py recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from builders.pictures import Theme, plain_axes, save


def draw(figure: Figure, theme: Theme, runs: list[dict[str, Any]]) -> None:
    """The losses of all runs, and how far those of each side are from those of its first run."""
    losses, apart = figure.subplots(2, 1, sharex=True)
    styles = {"torch alone": [(theme.orange, 1.2), (theme.orange, 1.2), (theme.second_orange, 1.2)]}
    styles["repdl.enable()"] = [(theme.faint, 4.0), (theme.blue, 1.2)]
    for by, lines in styles.items():
        own = [run for run in runs if run["by"] == by]
        for run, (colour, width) in zip(own, lines, strict=True):
            steps = range(1, len(run["losses"]) + 1)
            losses.plot(steps, run["losses"], color=colour, linewidth=width)
            if run is own[0]:
                continue
            differences = [abs(a - b) for a, b in zip(run["losses"], own[0]["losses"], strict=True)]
            label = f"{by}: {run['setting']} to {own[0]['setting']}"
            apart.plot(steps, differences, color=colour, linewidth=1.2, label=label)
    losses.set(ylabel="loss", yscale="log")
    apart.set(ylabel="difference of two settings", xlabel="step")
    apart.set_yscale("symlog", linthresh=1e-8)
    apart.set_yticks([0, 1e-8, 1e-6, 1e-4, 1e-2, 1])
    apart.set_ylim(-4e-9, 10)
    for axes in (losses, apart):
        plain_axes(axes, theme)
    figure.legend(loc="outside lower right", frameon=False, labelcolor=theme.ink)


def write(docs: Path) -> None:
    """The picture, into docs/gallery/generated."""
    into = docs / "gallery/generated"
    shutil.rmtree(into, ignore_errors=True)
    runs = json.loads((docs / "gallery/loss_curves.json").read_text())["runs"]
    save(lambda figure, theme: draw(figure, theme, runs), 5.4, into / "loss_curves")
