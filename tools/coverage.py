"""Write docs/coverage.md: every function of `repdl.ops` on the samples of torch's own database of ops.

    python tools/coverage.py                  # every function, a minute or two
    python tools/coverage.py einsum norm      # these, and what is not on the page; the other rows stay
    python tools/coverage.py --check          # fails if the page lacks a function, or has one too many

It needs expecttest and pytest, which torch's own tests import.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import repdl
from repdl.registry.declaration import unwrapped
from repdl.testing import opinfo
from repdl.testing.opinfo import Report

PAGE = Path(__file__).parents[1] / "docs/coverage.md"
DTYPES = [str(dtype).removeprefix("torch.") for dtype in opinfo.DTYPES]
FUNCTIONS = f"| function | {' | '.join(f'{d} | its gradient' for d in DTYPES)} | bad input |"
DIFFERENCES = "| function | in | number | difference | reason |"


def bound(dtype: torch.dtype) -> str:
    of_results, of_gradients = (f"2^{torch.tensor(b).log2().int().item()}" for b in opinfo.BOUNDS[dtype])
    return f"{of_results} and {of_gradients} in {str(dtype).removeprefix('torch.')}"


def introduction() -> str:
    text = f"""# What torch's own samples show

        `python tools/coverage.py` wrote this page; `packages/repdl-core/tests/testing/test_opinfo.py` compares a part
        of it with what functions do.

        Each function of `repdl.ops` runs on the samples that torch's database of ops (`torch.testing._internal`) has
        for torch's function of that name, and on its bad input. A sample agrees if shapes, dtypes and integers are
        torch's, and every element lies within a bound of what torch computes in float64 from the same numbers. Bad
        input agrees if an error of RepDL's is raised.

        The bounds are relative to the largest element, or to 1 if that is less. For results and for gradients they are
        {", ".join(map(bound, opinfo.DTYPES))}. Those of float32 and float64 are 2^11 times the unit roundoff: samples
        have few terms, none far above the others. A 16-bit float is rounded once at the end of a function, and a
        gradient is computed from rounded tensors.

        A row says how many samples agree, of how many; "-" where the database has none. Not counted are draws of
        random numbers, which are other ones than torch's, and samples that torch itself refuses in float64. The
        second table has every difference.
        """
    return unwrapped(text) + "\n"


def parsed(page: str, header: str) -> dict[str, list[str]]:
    """Function -> its lines in the table with that header."""
    found: dict[str, list[str]] = {}
    for line in page.partition(header)[2].partition("\n\n")[0].splitlines()[2:]:
        found.setdefault(line.split("`")[1], []).append(line)
    return found


def lines(report: Report) -> tuple[str, list[str]]:
    """Of one function its row, and the rows of its differences."""
    counts = " | ".join(f"{results} | {gradients}" for results, gradients in report.dtypes.values())
    differences = [
        f"| `{report.name}` | {', '.join(d.where)} | {d.number} | {d.what} | {d.reason} |" for d in report.differences()
    ]
    return f"| `{report.name}` | {counts} | {report.errors} |", differences


def page(names: list[str]) -> str:
    """The page, with these functions looked at again."""
    old = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    rows, differences = parsed(old, FUNCTIONS), parsed(old, DIFFERENCES)
    for name in repdl.ops.__all__:
        if name in names or name not in rows:
            row, others = lines(opinfo.report(name))
            rows[name], differences[name] = [row], others
    table = [rows[name][0] for name in repdl.ops.__all__]
    rest = [line for name in repdl.ops.__all__ for line in differences.get(name, [])]
    dashes = "\n" + "| --- " * (2 * len(DTYPES) + 2) + "|\n"
    return "\n".join(
        [
            introduction(),
            "## Functions\n",
            FUNCTIONS + dashes + "\n".join(table) + "\n",
            "## Differences\n",
            DIFFERENCES + "\n" + "| --- " * 5 + "|\n" + "\n".join(rest) + "\n",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("functions", nargs="*", help="default: all")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        listed = parsed(PAGE.read_text(encoding="utf-8"), FUNCTIONS).keys()
        wrong = listed ^ set(repdl.ops.__all__)
        for name in sorted(wrong):
            print(f"{name}: {'not on the page; run tools/coverage.py' if name not in listed else 'no function'}")
        return 1 if wrong else 0
    unknown = set(args.functions) - set(repdl.ops.__all__)
    if unknown:
        parser.error(f"no functions of repdl.ops: {', '.join(sorted(unknown))}")
    PAGE.write_text(page(args.functions or repdl.ops.__all__), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
