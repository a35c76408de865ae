"""Contract texts say what the code does: dtypes, derivatives, and the words for roundings.

What an op takes is found out by calling it on tensors without memory of every dtype, not read off a
declaration, so that text, declaration and checks can't drift apart.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
import torch

import repdl
from repdl.errors import DTypeError, UnsupportedError
from repdl.registry import OPS
from repdl.registry.backend import get_backend
from repdl.registry.declaration import DECLARATIONS
from repdl.testing import cases
from repdl.testing.dtypes import convert

V1 = files("repdl.contract").joinpath("v1")
TEXTS = {path.name.removesuffix(".md"): path.read_text() for path in V1.iterdir() if path.name.endswith(".md")}
OURS = sorted(op.name for op in OPS.values() if op.distribution == "repdl-core")
FAMILIES = sorted({OPS[op].family for op in OURS})
SINGLE, DOUBLE, FLOATS_16_BIT = torch.float32, torch.float64, (torch.bfloat16, torch.float16)
TRIED = (SINGLE, DOUBLE, *FLOATS_16_BIT, torch.float8_e4m3fn, torch.complex64, torch.int64, torch.bool)


def ops_of(family: str) -> list[str]:
    return [op for op in OURS if OPS[op].family == family]


def example(op: str) -> tuple[Any, ...]:
    """The arguments of the first case of an op with every optional tensor, or else of its first."""
    calls = [case.make() for case in cases(OPS[op].family) if case.op == op and not case.derived]
    return next((args for args in calls if None not in args), calls[0])


def converted(op: str, args: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """`args` with floating-point tensors of another dtype; those that are no tensors of numbers stay."""
    if dtype in (DOUBLE, *FLOATS_16_BIT) and OPS[op].storage is not None:
        return convert(op, args, dtype)
    return tuple(
        [t.to(dtype) for t in a]
        if isinstance(a, list) and a and isinstance(a[0], torch.Tensor)
        else a.to(dtype)
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in args
    )


@cache
def accepted(op: str) -> tuple[torch.dtype, ...]:
    """The dtypes that a call of the registered op takes, of those in TRIED; none for one of integers only."""
    args, taken = example(op), []
    nested = [a if isinstance(a, list) else [a] for a in args]
    if not any(isinstance(t, torch.Tensor) and t.is_floating_point() for group in nested for t in group):
        return ()
    contract = ("v1",) if OPS[op].has_order else ()
    for dtype in TRIED:
        meta = [
            [t.to("meta") for t in a]
            if isinstance(a, list) and a and isinstance(a[0], torch.Tensor)
            else a.to("meta")
            if isinstance(a, torch.Tensor)
            else a
            for a in converted(op, args, dtype)
        ]
        try:
            OPS[op].overload(*meta, *contract)
            taken.append(dtype)
        except DTypeError:
            pass
    return tuple(taken)


def spelled(dtypes: tuple[torch.dtype, ...], storage: bool) -> str:
    names = [str(dtype).removeprefix("torch.") for dtype in dtypes if not (storage and dtype in FLOATS_16_BIT)]
    return ", ".join(names) + (
        "; 16-bit floats by storage (`cast.md`)" if storage and set(FLOATS_16_BIT) <= set(dtypes) else ""
    )


def dtype_line(family: str) -> str:
    """How the line *Dtypes* of a text has to begin."""
    ops = ops_of(family)
    storages = [OPS[op].storage for op in ops]
    sets = {op: accepted(op) for op in ops}
    fewest = min(sets.values(), key=len)
    line = spelled(fewest, all(storage is not None for storage in storages))
    if len(set(sets.values())) > 1:
        assert set(sets.values()) == {fewest, (SINGLE, DOUBLE, *FLOATS_16_BIT)}, f"{family}: no words for {sets}"
        line += f"; float64 too but for {', '.join(f'`{op}`' for op in ops if sets[op] == fewest)}"
    declared = [storage.dtypes for storage in storages if storage is not None]
    parameters = dict.fromkeys(name for dtypes in declared for group in dtypes.parameters for name in group)
    integers = dict.fromkeys(name for dtypes in declared for name in dtypes.integers)
    line += f"; parameters {', '.join(parameters)}" if parameters else ""
    bools = dict.fromkeys(name for dtypes in declared for name in dtypes.bools)
    line += f"; int64 {', '.join(integers)}" if integers else ""
    return line + (f"; bool {', '.join(bools)}" if bools else "")


def line(family: str) -> str:
    (found,) = re.findall(r"^- Dtypes: (.*)$", TEXTS[family], re.MULTILINE)
    return str(found)


def begins(actual: str, expected: str) -> bool:
    """Whether the generated words are all that the line says of dtypes, up to a full stop or a semicolon."""
    return actual.startswith(expected) and actual[len(expected) :][:1] in (".", ";", ",")


@pytest.mark.parametrize("family", [family for family in FAMILIES if any(map(accepted, ops_of(family)))])
def test_texts__dtypes(family: str) -> None:
    expected = dtype_line(family)
    assert begins(line(family), expected), f"{family}.md: '- Dtypes: {line(family)}' must begin with '{expected}'"


def test_texts__are_of_families() -> None:
    assert TEXTS.keys() == set(FAMILIES)


@pytest.mark.parametrize("family", ["activation", "elementwise", "losses"])
def test_texts__of_rows_are_the_page(family: str) -> None:
    """Every op of the family declares its text, and the page ends with these."""
    rows = [DECLARATIONS[op].text for op in ops_of(family)]
    assert TEXTS[family].partition("\n## Ops\n")[2].splitlines() == rows


@pytest.mark.parametrize("op", [op for op in OURS if OPS[op].storage is not None])
def test_texts__declared_dtypes_are_those_taken(op: str) -> None:
    storage = OPS[op].storage
    assert storage is not None and set(accepted(op)) == set(storage.dtypes.supported)


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"cast"}))
def test_texts__roundings_are_to_the_dtype(name: str) -> None:
    """A text that float64 follows too must not speak of rounding to float32, nor of one dtype's NaN."""
    dtypes = set().union(*map(accepted, ops_of(name)))
    body = TEXTS[name].replace(line(name), "")
    single = r"\bf32\(|\b(?:float32|single)\b" if DOUBLE in dtypes else r"\bf32\("
    found = re.findall(rf"{single}|0x7fc0\w*|0x7ff8\w*", body)
    assert not found, f"{name}.md says {found}; say rounded(x), 'the dtype', 'the canonical NaN (`cast.md`)'"
    assert ("rounded(" in body) <= ("rounded(x) is the double x rounded once to" in line(name))


def test_texts__every_link_leads_to_a_text() -> None:
    for name, text in TEXTS.items():
        missing = set(re.findall(r"`(\w+)\.md`", text)) - TEXTS.keys()
        assert not missing, f"{name}.md names {missing}"


@pytest.mark.parametrize("name", [name for name, info in repdl.backends().items() if info.error is None])
def test_texts__a_backend_claims_float64_for_what_takes_it(name: str) -> None:
    backend = get_backend(name)
    ours = {op for op in backend.ops if op in OURS and accepted(op)}
    takes = {op for op in ours if DOUBLE in accepted(op)}
    left = {op for op in takes if OPS[op].formula is not None}  # to the formula, where there is no kernel
    assert takes - left <= set(backend.float64) & ours <= takes


def derivative_error(op: str) -> str:
    """What differentiating a small case of an op raises, or an empty text."""
    first = [case for case in cases(OPS[op].family) if case.op == op and not case.derived][:5]
    sizes = {case: sum(a.numel() for a in case.make() if isinstance(a, torch.Tensor)) for case in first}
    case = min((case for case in first if sizes[case]), key=lambda case: sizes[case])
    args = [
        a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
        for a in case.args()
    ]
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    with repdl.use_backend("reference"):
        result = OPS[op].overload(*args)
        outputs = [t for t in (result if isinstance(result, tuple) else (result,)) if t.requires_grad]
        try:
            torch.autograd.grad([t.sum() for t in outputs], leaves, allow_unused=True)
        except UnsupportedError as error:
            return str(error)
    return ""


def test_texts__derivatives() -> None:
    """Every op but the optimizers' steps has one, and no text says otherwise."""
    errors = {op: derivative_error(op) for op in OURS if OPS[op].differentiable is not None}
    assert not {op: error for op, error in errors.items() if error}
    assert not [family for family in FAMILIES if "no derivative" in TEXTS[family]]
