"""Nothing is missing: each op has its text, its bits, its cases, its kernels and its documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.registry.declaration import DECLARATIONS
from repdl.testing import cases, golden

OURS = sorted(op.name for op in OPS.values() if op.distribution == "repdl-core")
FAMILIES = sorted({OPS[name].family for name in OURS})
BACKENDS = [name for name, info in repdl.backends().items() if info.error is None]
PACKAGES = Path(__file__).parents[3]
STEPS = {"cast", *(op.name for op in OPS.values() if op.mutates)}
"""Public functions that torch has under no such name."""
PYTHON = {"norm", "cdist", "tensordot", "chain_matmul", "einsum", "unique", "unique_consecutive"}
"""Functions of torch that are written in Python: they have a signature, and take no other names."""
NEVER_EMPTY = {"max"}
"""Ops that torch refuses on an empty input; the backward of one takes none either."""

by_op = pytest.mark.parametrize("op", OURS)
by_family = pytest.mark.parametrize("family", FAMILIES)


def tensors(op: str) -> Iterator[list[torch.Tensor]]:
    """The tensor arguments of each case of an op."""
    for case in cases(OPS[op].family):
        if case.op == op:
            nested = [a if isinstance(a, list) else [a] for a in case.make()]
            yield [t for group in nested for t in group if isinstance(t, torch.Tensor)]


@by_op
def test_coverage__text_and_golden_bits_mention_the_op(op: str) -> None:
    text = files("repdl.contract").joinpath("v1", f"{OPS[op].family}.md").read_text()
    name = op if op in text else op.replace("_dim", "")
    assert f"`{name}" in text, f"{OPS[op].family}.md does not define {op}"
    assert any(case.startswith(f"{op}__") for case in golden(OPS[op].family))


@by_op
def test_coverage__cases(op: str) -> None:
    arguments = list(tensors(op))
    assert arguments, f"no case of {op}"
    assert any(not t.is_contiguous() for args in arguments for t in args), f"{op}: no case is non-contiguous"
    if op.removesuffix("_backward") not in NEVER_EMPTY:
        assert any(t.numel() == 0 for args in arguments for t in args), f"{op}: no case is empty"


@pytest.mark.parametrize("name", BACKENDS)
def test_coverage__backends_implement_every_op(name: str) -> None:
    missing = set(OURS) - implementations(get_backend(name)).keys()
    assert not missing, f"{name} lacks {missing}"


def test_coverage__reference_is_a_backend() -> None:
    assert "reference" in BACKENDS


@by_family
def test_coverage__modules(family: str) -> None:
    """The op, its cases and its reference in folders of one name."""
    ops = [op for op in OPS.values() if op.family == family]
    written = [] if all(op.name in DECLARATIONS for op in ops) else ["ops", "testing/cases"]
    if not all(op.formula is not None for op in ops):
        written.append("reference")
    root = Path(repdl.__file__).parent
    found = {room: [path.parent.name for path in (root / room).rglob(f"{family}.py")] for room in written}
    assert all(found.values()), found
    assert len({folder for folders in found.values() for folder in folders}) == 1 or not found, found


@pytest.mark.skipif(not (PACKAGES / "repdl-cpu/native").is_dir(), reason="no source tree of repdl-cpu here")
@by_family
def test_coverage__source_tree(family: str) -> None:
    """A test file, and each op by name in the sources of each backend or in the headers that they share."""
    assert len([*(PACKAGES / "repdl-core/tests").rglob(f"test_{family}.py")]) == 1
    headers = PACKAGES / "repdl-core/src/repdl_contract/include/repdl"
    shared = headers / "cell", headers / "pointwise", headers / "step"
    for backend in ("cpu", "cuda"):
        folders = (*shared, PACKAGES / f"repdl-{backend}/native", PACKAGES / f"repdl-{backend}/src")
        files_ = [
            path for folder in folders for path in folder.rglob("*.*") if path.suffix in (".py", ".hpp", ".cpp", ".cu")
        ]
        words = set(re.findall(r"\w+", " ".join(path.read_text() for path in files_)))
        kernels = [op.name for op in OPS.values() if op.family == family and op.formula is None]
        missing = [name for name in kernels if name not in words]
        assert not missing, f"{family}: {missing} missing in {backend}"


NAMES = sorted(set(repdl.ops.__all__) - STEPS)
EXTRA = {"axis", "keepdims", "generator", "requires_grad", "transA", "transB"}
"""Parameters that torch's schemas do not name: numpy's names, which torch takes too, and our own."""
SPELLED = {"self": "input", "b": "B"}
"""Names of schemas that torch's functions and its documentation spell in another way."""
ATEN = {
    "logsigmoid": ["log_sigmoid"],
    "unique": ["unique_dim", "_unique2"],
    "unique_consecutive": ["unique_consecutive", "unique_dim_consecutive"],
    **{f"max_pool{n}d": [f"max_pool{n}d_with_indices"] for n in (1, 2, 3)},
}
"""Names that torch's functions have in its schemas."""


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a public function."""
    return dict(inspect.signature(getattr(repdl.ops, name)).parameters)


def signature(name: str) -> dict[str, inspect.Parameter] | None:
    """The parameters of torch's function of a name, if it is written in Python and has them by name."""
    for place in (torch.nn.functional, torch.linalg, torch):
        if hasattr(place, name):
            try:
                found = dict(inspect.signature(getattr(place, name)).parameters)
            except (TypeError, ValueError):
                return None
            return None if found.keys() & {"args", "kwargs", "self"} else found
    return None


def in_schemas(name: str) -> set[str]:
    """The names that arguments have in torch's schemas of a function."""
    ops = [*ATEN.get(name, [name]), f"linalg_{name}", f"special_{name}", f"{name}_", f"_{name}"]
    schemas = [schema for op in ops for schema in torch._C._jit_get_schemas_for_operator(f"aten::{op}")]
    return {SPELLED.get(argument.name, argument.name) for schema in schemas for argument in schema.arguments}


@pytest.mark.parametrize("name", repdl.ops.__all__)
def test_coverage__docstring(name: str) -> None:
    text: Any = getattr(repdl.ops, name).__doc__
    assert text and "Contract: " in text and "Source: " in text, f"{name}: {text!r}"
    family = text.split("Contract: ")[1].split()[0]
    assert files("repdl.contract").joinpath("v1", f"{family}.md").is_file(), f"{name}: no contract {family}"


@pytest.mark.parametrize("name", NAMES)
def test_coverage__contract_keyword(name: str) -> None:
    contract = parameters(name)["contract"]
    assert contract.kind is inspect.Parameter.KEYWORD_ONLY and contract.default is None


@pytest.mark.parametrize("name", NAMES)
def test_coverage__parameter_names_are_torchs(name: str) -> None:
    mine = [p for p in parameters(name) if p != "contract" and p not in EXTRA]
    theirs = signature(name)
    if theirs is not None:
        assert mine == [p for p in theirs if p not in EXTRA]
        if hasattr(torch.nn.functional, name):
            assert [parameters(name)[p].default for p in mine] == [theirs[p].default for p in mine]
    else:  # the name of the first one, which nobody passes by name, is the function's
        known = in_schemas(name)
        assert known, f"torch has no function {name}"
        assert set(mine[1:]) - {"return_indices"} <= known | ({"operands"} if name == "einsum" else set())


def test_coverage__numpys_names_where_torch_takes_them() -> None:
    for name in NAMES:
        mine, theirs = getattr(repdl.ops, name), getattr(torch, name, None)
        if (
            theirs is None
            or name
            in (
                *PYTHON,
                "cosine_similarity",
                "pairwise_distance",
                "renorm",
                "trapezoid",
                "cumulative_trapezoid",
                "unique",
            )
            or {"index", "indices"} & parameters(name).keys()
        ):
            continue  # torch.nn.functional's take no other names; those of indices and distances not here
        aliases = {alias for of, alias in (("dim", "axis"), ("keepdim", "keepdims")) if of in parameters(name)}
        assert aliases <= parameters(name).keys(), name
        if not aliases:
            continue
        x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
        options = {"axis": 1, **({"keepdims": True} if "keepdims" in aliases else {})}
        args = {
            "kthvalue": (x, 1),
            "topk": (x, 1),
            "repeat_interleave": (x, 2),
            "quantile": (x, 0.3),
            "nanquantile": (x, 0.3),
            "cross": (x.new_ones(2, 3), x.new_ones(2, 3)),
        }.get(name, (x,))
        for actual, expected in zip(mine(*args, **options), theirs(*args, **options)):
            torch.testing.assert_close(actual, expected)
        with pytest.raises(repdl.RepDLError, match="dim is 0 and axis is 1, expected one of them"):
            mine(*args, dim=0, **options)
