"""A page for each processor of docs/benchmarks: pictures and tables of the JSON that benchmarks/kernels.py wrote, on a
GPU benchmarks/cuda_kernels.py.

`notes.md` in the folder of a processor has what people found out about the figures; its page ends with it.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from builders.pictures import Theme, markdown, plain_axes, save

TITLES = {
    "zen3": "AMD Zen 3",
    "zen4": "AMD Zen 4",
    "zen5": "AMD Zen 5",
    "intel-amx": "Intel server core with AMX",
    "ice-lake-server": "Intel server core without AMX (Ice Lake)",
    "emerald-rapids": "Intel server core without AMX (Emerald Rapids)",
    "h200": "NVIDIA H200",
}
"""Of the names that benchmarks/processor.py gives; a processor without a title has its name."""
TABLES = {"kernels": "One thread", "2_threads": "Two threads", "avx2": "Both sides held to AVX2", "gpu": "On the GPU"}
"""Files with times, and the headings of their sections."""
SUMMARY = re.compile(r".*, geometric mean of \d+")
"""Lines that summarise others. The pages compute their own."""
GROUPS = {
    "calls on 8x8": r"(mm|linear) 8x8 .*",
    "products": r"(mm|bmm|linear) .*",
    "ResNet-50, forward": r"conv forward .*",
    "ResNet-50, input gradient": r"conv grad_input .*",
    "ResNet-50, weight gradient": r"conv grad_weight .*",
    "other convolutions": r"(depthwise|grouped|MNIST) .*",
    "sums and means": r"(sum|mean) .*",
    "softmax, cross entropy": r"(softmax|log_softmax|cross_entropy) .*",
    "normalisation": r"(batch|layer|rms|group)_norm .*",
    "attention": r"attention .*",
    "losses of elements": r"\w+_(loss|logits|div) 2\*\*.*",
    "activations": r"(relu|gelu|silu|sigmoid|tanh) 2\*\*2[06].*",
    "elementary functions": r"\w+ 2\*\*2[06]( by [\d.]+)?",
    "pooling": r"(max|avg)_pool2d .*",
    "interpolation": r"interpolate .*",
    "optimizer steps": r"\w+ step, .*",
    "random numbers": r"(rand|randn|exponential|bernoulli|dropout|randint|randperm) .*",
    "sorting, running sums": r"(\w*sort|topk .*|kthvalue .*|median|quantile|amax|argmax|cum\w+|log\w+exp|norm) \(.*",
    "indices, embedding": r"(scatter_add|index_add|embedding) .*",
    "rows of tables": r"(scatter_reduce|embedding_bag|cdist|grid_sample|prod) .*",
    "factorizations": r"(cholesky|lu_factor|qr|solve\w*) \d+",
}
"""What a group takes; the first one that matches."""


def title(processor: str) -> str:
    return TITLES.get(processor, processor)


@dataclass(frozen=True)
class Row:
    """A line of a table: times in milliseconds, or memory in MiB."""

    work: str
    torch: float
    ours: float
    ratio: float
    bound: float


@dataclass(frozen=True)
class Table:
    """A file of docs/benchmarks."""

    path: Path
    about: dict[str, Any]
    rows: list[Row]

    @classmethod
    def read(cls, path: Path) -> Table:
        found = json.loads(path.read_text())
        unit = "mib" if path.stem == "memory" else "ms"
        rows = [
            Row(row["work"], row[f"torch_{unit}"], row[f"ours_{unit}"], row["ratio"], row["bound"])
            for row in found.pop("rows")
            if not SUMMARY.fullmatch(row["work"])
        ]
        return cls(path, found, rows)


@dataclass(frozen=True)
class Group:
    """The ratios of the lines of one kind."""

    name: str
    ratios: list[float]

    @property
    def mean(self) -> float:
        return math.exp(sum(map(math.log, self.ratios)) / len(self.ratios))


def groups(table: Table) -> list[Group]:
    """Best first, by the geometric mean."""
    found: dict[str, list[float]] = {}
    for row in table.rows:
        name = next((name for name, pattern in GROUPS.items() if re.fullmatch(pattern, row.work)), None)
        if name is None:
            raise ValueError(f"{table.path}: no group takes the line {row.work!r}; add one to GROUPS of {__file__}")
        found.setdefault(name, []).append(row.ratio)
    return sorted((Group(name, ratios) for name, ratios in found.items()), key=lambda group: -group.mean)


def draw(figure: Figure, theme: Theme, shown: list[Group]) -> None:
    """A row for each group: a dot for each line, a bar at the mean, and where torch is."""
    axes = figure.add_subplot()
    for height, group in enumerate(shown):
        colour = theme.blue if group.mean >= 1 else theme.orange
        axes.plot(group.ratios, [height] * len(group.ratios), "o", markersize=4, alpha=0.45, color=colour, mew=0)
        axes.plot([group.mean] * 2, [height - 0.36, height + 0.36], color=colour, linewidth=2.5)
    axes.axvline(1.0, color=theme.ink, linewidth=1)
    axes.annotate("torch", (1.0, -0.9), ha="center", va="bottom", color=theme.ink)
    axes.set_yticks(range(len(shown)), [group.name for group in shown])
    axes.set_ylim(len(shown) - 0.4, -0.9)
    axes.set_xscale("log")
    axes.set_xticks([0.2, 0.5, 1, 2, 5, 10], labels=["0.2", "0.5", "1", "2", "5", "10"])
    axes.minorticks_off()
    axes.set_xlabel("torch's time / RepDL's (right: RepDL is faster)", loc="right")
    plain_axes(axes, theme)


def section(table: Table, heading: str, pictures: Path) -> str:
    """Picture, table of groups, and all lines."""
    processor, about, shown = table.path.parent.name, table.about, groups(table)
    stem = f"{processor}-{table.path.stem}"
    save(lambda figure, theme: draw(figure, theme, shown), 0.24 * len(shown) + 0.9, pictures / stem)
    faster = sum(group.mean >= 1 for group in shown)
    least, most = (f"{group.name} ({group.mean:.2f})" for group in (shown[-1], shown[0]))
    alt = (
        f"{title(processor)}, {heading}: torch's time divided by RepDL's for {len(shown)} groups of kernels, "
        f"{faster} of them at 1 or more, from {least} to {most}"
    )
    if "devices" in about:
        where = f"{about['devices']}, driver {about['driver']}, cuDNN {about['cuDNN']}"
    else:
        where = f"instructions {about['isa']}, threads {about['threads']}"
    lines = [
        f"## {heading}",
        f"torch {about['torch']}, RepDL {about['version']}, {where}. All numbers: "
        f"[{table.path.name}]({processor}/{table.path.name}).",
        markdown(f"{pictures.name}/{stem}", alt),
        "\n".join(
            [
                "| group | lines | mean | least | most |",
                "| --- | --: | --: | --: | --: |",
                *(
                    f"| {g.name} | {len(g.ratios)} | {g.mean:.2f} | {min(g.ratios):.2f} | {max(g.ratios):.2f} |"
                    for g in shown
                ),
            ]
        ),
        details(
            f"All {len(table.rows)} lines",
            "| work | torch, ms | RepDL, ms | ratio | bound |",
            [
                f"| {r.work} | {r.torch:.3f} | {r.ours:.3f} | {r.ratio:.2f} | {f'{r.bound:.2f}' if r.bound else ''} |"
                for r in table.rows
            ],
        ),
    ]
    return "\n\n".join(lines)


def details(summary: str, header: str, rows: list[str]) -> str:
    """A table that opens by a click."""
    rule = "| --- |" + " --: |" * (header.count("|") - 2)
    escaped = [row.replace("*", r"\*") for row in rows]
    table = "\n".join([header, rule, *escaped])
    return f"<details><summary>{summary}</summary>\n\n{table}\n\n</details>"


def memory(table: Table) -> str:
    """How many lines stay within the bound, and all of them."""
    over = [row.work for row in table.rows if row.ratio < row.bound]
    less = sum(row.ours <= row.torch for row in table.rows)
    within = f"{len(table.rows) - len(over)} of {len(table.rows)} lines are within it" + (
        f"; not: {', '.join(over)}." if over else "."
    )
    return "\n\n".join(
        [
            "## Memory",
            "What the first call adds to the process at its peak. It is to be at most 1.2 times torch's and 16 MiB. "
            f"{within} RepDL adds no more than torch in {less}. "
            f"All numbers: [{table.path.name}]({table.path.parent.name}/{table.path.name}).",
            details(
                f"All {len(table.rows)} lines",
                "| work | torch, MiB | RepDL, MiB |",
                [f"| {row.work} | {row.torch:.1f} | {row.ours:.1f} |" for row in table.rows],
            ),
        ]
    )


def page(folder: Path, pictures: Path) -> str:
    """The page of a processor."""
    parts = [f"# {title(folder.name)}"]
    parts.append(
        "Each dot is one line of the table, each bar the geometric mean of a group. The groups are sorted by it. "
        "[How this is measured](../benchmark.md)."
    )
    parts += [
        section(Table.read(folder / f"{name}.json"), heading, pictures)
        for name, heading in TABLES.items()
        if (folder / f"{name}.json").is_file()
    ]
    if (folder / "memory.json").is_file():
        parts.append(memory(Table.read(folder / "memory.json")))
    if (folder / "notes.md").is_file():
        parts.append((folder / "notes.md").read_text())
    return "\n\n".join(parts) + "\n"


def overview(folders: list[Path]) -> str:
    """Geometric means of one thread: a row for each group, a column for each processor."""
    of = {
        folder.name: {group.name: group for group in groups(Table.read(folder / "kernels.json"))}
        for folder in folders
        if (folder / "kernels.json").is_file()
    }
    header = "| group | " + " | ".join(f"[{TITLES.get(name, name)}](benchmarks/{name}.md)" for name in of) + " |"
    rows = [header, "| --- |" + " --: |" * len(of)]
    for group in GROUPS:
        cells = (f"{found[group].mean:.2f}" if group in found else "" for found in of.values())
        rows.append(f"| {group} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def write(docs: Path) -> None:
    """Pages, pictures and the overview, into docs/benchmarks."""
    root = docs / "benchmarks"
    pictures = root / "generated"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir()
    for old in root.glob("*.md"):
        old.unlink()
    folders = sorted({path.parent for name in ("kernels", "gpu") for path in root.glob(f"*/{name}.json")})
    for folder in folders:
        (root / f"{folder.name}.md").write_text(page(folder, pictures))
    (pictures / "overview.md").write_text(overview(folders))
