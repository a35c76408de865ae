"""Pictures as SVG, one for a light page and one for a dark one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Theme:
    """The colours of a picture; `name` is also how furo calls the mode."""

    name: str
    ink: str
    faint: str
    blue: str
    orange: str
    second_orange: str


THEMES = (
    Theme("light", "#1f2328", "#c8ccd1", "#1f6fc0", "#b85c00", "#e09a3e"),
    Theme("dark", "#e3e5e8", "#4a4e55", "#6cb2f5", "#f0a04b", "#b8762c"),
)
WIDTH = 5.2
"""Inches: a phone shows it three quarters as large, in which text of 9 points can still be read."""


def save(draw: Callable[[Figure, Theme], None], height: float, stem: Path) -> None:
    """Write `<stem>-light.svg` and `<stem>-dark.svg`; the same picture is the same file each time."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    settings = {"svg.hashsalt": "repdl", "font.size": 9}
    for theme in THEMES:
        with matplotlib.rc_context(settings):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            draw(figure, theme)
            figure.savefig(f"{stem}-{theme.name}.svg", format="svg", transparent=True, metadata={"Date": None})


def plain_axes(axes: Axes, theme: Theme) -> None:
    """Axes with a faint grid and no frame, in the colours of the theme."""
    axes.tick_params(length=0, colors=theme.ink, which="both")
    axes.xaxis.label.set_color(theme.ink)
    axes.yaxis.label.set_color(theme.ink)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.grid(color=theme.faint, linewidth=0.6)
    axes.set_axisbelow(True)


def markdown(path: str, alt: str) -> str:
    """The lines that show `<path>-light.svg` on a light page and the other on a dark one."""
    shown = (
        f"```{{image}} {path}-{theme.name}.svg\n:class: only-{theme.name}\n:align: center\n:alt: {alt}\n```"
        for theme in THEMES
    )
    return "\n\n".join(shown)
