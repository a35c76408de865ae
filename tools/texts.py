"""Write what the registry knows into pages that people read: contract texts, and lists of names, and types of ops.

    python tools/texts.py            # writes what changed
    python tools/texts.py --check    # fails if a page is not as it would be written

Of the declared texts (`repdl.registry.declaration`) one that begins with a title is a page of the contract,
`contract/v1/<family>.md`; others end the page of their family. A list of names is the beginning of a cell
in a table: what stands after it is written by hand.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

import torch

import repdl
from repdl.audit import OP_CLASSES, OpClass
from repdl.audit.op_classes import TORCH
from repdl.nn import modules
from repdl.nn.modules import Layer
from repdl.registry import OPS
from repdl.registry.declaration import DECLARATIONS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "packages/repdl-core/src/repdl/contract/v1"
HEADING = "## Ops\n"


def lists() -> dict[Path, dict[str, Iterable[str]]]:
    """Page -> first cell of a row of a table -> the names that the second one begins with."""
    of = {name: getattr(repdl.ops, name).__module__.rpartition(".")[2] for name in repdl.ops.__all__}
    losses = ("embedding_losses", "likelihoods", "losses", "margins")
    exact = {
        name
        for name, module in of.items()
        if module in ("unary", "pow") and "correctly rounded" in (getattr(repdl.ops, name).__doc__ or "")
    }
    layers = {c for c in vars(modules).values() if isinstance(c, type) and issubclass(c, Layer) and c is not Layer}
    steps = [name for name in repdl.ops.__all__ if name in OPS and OPS[name].mutates]
    optimizers = [c.__name__ for c in vars(repdl.optim).values() if isinstance(c, type)]
    optim = {"optimizers": optimizers, "their contracts": steps}
    files: dict[str, list[str]] = {}
    for layer in layers:
        files.setdefault(f"`{layer.__module__.rpartition('.')[2]}.py`", []).append(layer.__name__)
    return {
        ROOT / "docs/reference/covered.md": {
            "arithmetic": [n for n, m in of.items() if m in ("elementwise", "ternary", "unary") and n not in exact],
            "[correctly rounded functions](../correctly-rounded-functions.md)": exact,
            "activations": [name for name, module in of.items() if module in ("activation", "rectifiers", "smooth")],
            "losses of elements": [name for name, module in of.items() if module in losses],
            "layers (repdl-nn)": [layer.__name__ for layer in layers],
            "optimizers (repdl-optim)": optimizers,
            "their steps": steps,
        },
        ROOT / "packages/repdl-nn/README.md": dict(files),
        ROOT / "packages/repdl-optim/README.md": dict(optim),
    }


def listed(page: str, first: str, names: Iterable[str]) -> str:
    """A page with these names in the row that begins with the cell `first`."""
    row = re.compile(rf"^(\| {re.escape(first)} \| )`\w+`(?:, `\w+`)*", re.MULTILINE)
    spelled = ", ".join(f"`{name}`" for name in sorted(names))
    page, found = row.subn(rf"\g<1>{spelled}", page)
    if found != 1:
        raise SystemExit(f"tools/texts.py: {found} rows begin with '| {first} | `', expected 1")
    return page


def dtypes(family: str) -> str:
    """How the line *Dtypes* of a page begins."""
    sets = {op.name: op.storage.dtypes.supported for op in OPS.values() if op.family == family and op.storage}
    fewest = min(sets.values(), key=len)
    line = f"float32{', float64' * (torch.float64 in fewest)}; 16-bit floats by storage (`cast.md`)"
    if len({*map(frozenset, sets.values())}) > 1:
        line += f"; float64 too but for {', '.join(f'`{op}`' for op in sorted(sets) if sets[op] == fewest)}"
    integers = dict.fromkeys(
        name for op in OPS.values() if op.family == family and op.storage for name in op.storage.dtypes.integers
    )
    return line + (f"; int64 {', '.join(integers)}" if integers else "")


def op_classes() -> str:
    """The end of the page about torch's ops: those of each class."""
    text = [f"## The table\n\nOps of torch {TORCH} by name, in all their overloads.\n"]
    for op_class in OpClass:
        names = ", ".join(f"`{name}`" for name in sorted(OP_CLASSES) if OP_CLASSES[name] is op_class)
        text += [f"### {op_class.name.capitalize()}\n\n{op_class.value}\n\n{names}\n"]
    return "\n".join(text)


STUB = ROOT / "packages/repdl-core/src/repdl/registry/functions.pyi"


def annotation(kind: str) -> str:
    """A type of torch's schemas, such as Optional[Tensor], as one of Python."""
    outer, _, inner = kind.partition("[")
    if outer == "Optional":
        return f"{annotation(inner[:-1])} | None"
    if outer == "List":
        return f"Sequence[{annotation(inner[:-1])}]"
    return {"number": "float", "ScalarType": "torch.dtype"}.get(outer, outer)


def stub() -> str:
    """The types of the registered ops, for editors and mypy."""
    lines = [
        "# Written by tools/texts.py from the schemas of the ops.",
        "from collections.abc import Sequence",
        "",
        "import torch",
        "from torch import Tensor",
        "",
    ]
    for name, op in sorted(OPS.items()):
        if op.distribution == "repdl-core":
            schema = op.overload._schema
            given = ", ".join(f"{a.name}: {annotation(str(a.real_type))}" for a in schema.arguments)
            outputs = [annotation(str(r.real_type)) for r in schema.returns]
            result = "None" if not outputs else outputs[0] if len(outputs) == 1 else f"tuple[{', '.join(outputs)}]"
            lines.append(f"def {name}({given}) -> {result}: ...")
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    """Every page that has declared texts, as it should be."""
    found: dict[Path, str] = {}
    for family in sorted({op.family for op in OPS.values() if op.distribution == "repdl-core"}):
        texts = [DECLARATIONS[name].text for name in sorted(DECLARATIONS) if OPS[name].family == family]
        path = FOLDER / f"{family}.md"
        if any(text.startswith("# ") for text in texts):
            found[path] = "\n".join(texts)
        elif texts:
            written = path.read_text(encoding="utf-8").partition(f"\n{HEADING}")[0]
            written = re.sub(r"^- Dtypes: .*?(?=[.;] [A-Zb]|\.$)", f"- Dtypes: {dtypes(family)}", written, flags=re.M)
            found[path] = "\n".join([written, HEADING.rstrip(), *texts, ""])
    ops = ROOT / "docs/torch-ops.md"
    found[ops] = ops.read_text(encoding="utf-8").partition("## The table\n")[0] + op_classes()
    found[STUB] = stub()
    for path, rows in lists().items():
        found[path] = path.read_text(encoding="utf-8")
        for first, names in rows.items():
            found[path] = listed(found[path], first, names)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = {p: text for p, text in pages().items() if not p.is_file() or p.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        print(f"{path.name}: {'not as the registry says; run tools/texts.py' if args.check else 'written'}")
        if not args.check:
            path.write_text(text, encoding="utf-8")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
