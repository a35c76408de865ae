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
from repdl.testing.cases.pointwise import elementwise

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


# torch's parameter names, of functions that can't be inspected; None: torch.nn.functional's function of that name can.
UNARY, BINARY = ("input",), ("input", "other")
TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
AVERAGED = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
TORCH: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys((name for name in repdl.ops.__all__ if name not in STEPS), None),
    **dict.fromkeys(elementwise.UNARY, UNARY),
    "relu": None,
    **dict.fromkeys(("atan2", "mul", "maximum", "minimum", "matmul"), BINARY),
    **dict.fromkeys(("add", "sub"), (*BINARY, "alpha")),
    **dict.fromkeys(("mm", "bmm"), ("input", "mat2")),
    **dict.fromkeys(("sum", "mean"), ("input", "dim", "keepdim", "dtype")),
    "addmm": ("input", "mat1", "mat2", "beta", "alpha"),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d"), ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    ),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), TRANSPOSED),
    **dict.fromkeys(
        ("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"), ("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh")
    ),
    "adaptive_avg_pool1d": ("input", "output_size"),
    **{f"adaptive_max_pool{d}d": ("input", "output_size", "return_indices") for d in (1, 2, 3)},
    "avg_pool1d": AVERAGED,
    "scaled_dot_product_attention": (
        *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"),
    ),
    **dict.fromkeys(("avg_pool2d", "avg_pool3d"), (*AVERAGED, "divisor_override")),
    "div": (*BINARY, "rounding_mode"),
    "gelu": ("input", "approximate"),
    "linear": ("input", "weight", "bias"),
    **dict.fromkeys(("max", "min"), ("input", "dim", "keepdim", "other")),
    **dict.fromkeys(("hypot", "logaddexp", "logaddexp2", "xlogy", "fmod", "remainder", "floor_divide"), BINARY),
    "logit": ("input", "eps"),
    "sinc": UNARY,
    **dict.fromkeys(("fmax", "fmin", "inner", "vdot", "kron"), BINARY),
    **dict.fromkeys(("amax", "amin", "aminmax", "argmax", "argmin", "logsumexp"), ("input", "dim", "keepdim")),
    **dict.fromkeys(("median", "nanmedian"), ("input", "dim", "keepdim")),
    **dict.fromkeys(("nansum", "nanmean", "prod"), ("input", "dim", "keepdim", "dtype")),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), ("input", "dim", "unbiased", "keepdim", "correction")),
    "norm": ("input", "p", "dim", "keepdim", "out", "dtype"),
    "vector_norm": ("x", "ord", "dim", "keepdim", "dtype"),
    "cdist": ("x1", "x2", "p", "compute_mode"),
    **dict.fromkeys(("cumsum", "cumprod"), ("input", "dim", "dtype")),
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"), ("input", "dim")),
    "linspace": ("start", "end", "steps", "dtype", "device"),
    "arange": ("start", "end", "step", "dtype", "device"),
    **dict.fromkeys(("quantile", "nanquantile"), ("input", "q", "dim", "keepdim", "interpolation")),
    "mode": ("input", "dim", "keepdim"),
    "cov": ("input", "correction", "fweights", "aweights"),
    "corrcoef": ("input",),
    **dict.fromkeys(("trapezoid", "cumulative_trapezoid"), ("y", "x", "dx", "dim")),
    "matrix_norm": ("A", "ord", "dim", "keepdim", "dtype"),
    "qr": ("A", "mode"),
    "lstsq": ("A", "B", "rcond", "driver"),
    "solve_triangular": ("A", "B", "upper", "left", "unitriangular"),
    "unique": ("input", "sorted", "return_inverse", "return_counts", "dim"),
    "unique_consecutive": ("input", "return_inverse", "return_counts", "dim"),
    "dist": (*BINARY, "p"),
    "renorm": ("input", "p", "dim", "maxnorm"),
    "vecdot": ("x", "y", "dim"),
    **dict.fromkeys(("sort", "argsort"), ("input", "dim", "descending", "stable")),
    "msort": ("input",),
    "topk": ("input", "k", "dim", "largest", "sorted"),
    "kthvalue": ("input", "k", "dim", "keepdim"),
    "diff": ("input", "n", "dim", "prepend", "append"),
    "trace": ("input",),
    "cross": (*BINARY, "dim"),
    "einsum": ("equation", "operands"),
    **dict.fromkeys(("baddbmm", "addbmm"), ("input", "batch1", "batch2", "beta", "alpha")),
    "addmv": ("input", "mat", "vec", "beta", "alpha"),
    "addr": ("input", "vec1", "vec2", "beta", "alpha"),
    "mv": ("input", "vec"),
    "dot": ("input", "tensor"),
    "outer": ("input", "vec2"),
    "tensordot": ("a", "b", "dims", "out"),
    "multi_dot": ("tensors",),
    "chain_matmul": ("matrices", "out"),
    "pow": ("input", "exponent"),
    "addcdiv": ("input", "tensor1", "tensor2", "value"),
    "addcmul": ("input", "tensor1", "tensor2", "value"),
    "clamp": ("input", "min", "max"),
    "lerp": ("input", "end", "weight"),
    "softplus": ("input", "beta", "threshold"),
    **dict.fromkeys(("hardshrink", "softshrink"), ("input", "lambd")),
    "logsigmoid": UNARY,
    "cosine_similarity": ("x1", "x2", "dim", "eps"),
    "pairwise_distance": ("x1", "x2", "p", "eps", "keepdim"),
    "bilinear": ("input1", "input2", "weight", "bias"),
    "prelu": ("input", "weight"),
    "where": ("condition", "input", "other"),
    "feature_dropout": ("input", "p", "train"),
    "bincount": ("input", "weights", "minlength"),
    "gather": ("input", "dim", "index", "sparse_grad"),
    "index_add": ("input", "dim", "index", "source", "alpha"),
    "index_put": ("input", "indices", "values", "accumulate"),
    "index_select": ("input", "dim", "index"),
    "scatter_add": ("input", "dim", "index", "src"),
    "index_reduce": ("input", "dim", "index", "source", "reduce", "include_self"),
    "scatter_reduce": ("input", "dim", "index", "src", "reduce", "include_self"),
    "take_along_dim": ("input", "indices", "dim"),
    "index": ("input", "indices"),
    "take": ("input", "index"),
    **dict.fromkeys(("expand", "broadcast_to"), ("input", "size")),
    "repeat": ("input", "repeats"),
    "tile": ("input", "dims"),
    "repeat_interleave": ("input", "repeats", "dim", "output_size"),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool3d"),
        ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"),
    ),
}
ADDED = {
    "mm": ("transA", "transB"),
    **dict.fromkeys(
        (
            *("max", "min", "mean", "sum", "amax", "amin", "aminmax", "argmax", "argmin", "logsumexp", "median"),
            *("nanmedian", "nansum", "nanmean", "prod", "var", "std", "var_mean", "std_mean", "kthvalue"),
            *("mode", "quantile", "nanquantile"),
        ),
        ("axis", "keepdims"),
    ),
    **dict.fromkeys(
        (
            *("softmax", "log_softmax", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "topk", "cross"),
            *("diff", "repeat_interleave", "logcumsumexp"),
        ),
        ("axis",),
    ),
    **dict.fromkeys((name for name in repdl.ops.__all__ if "dropout" in name), ("generator",)),
    **dict.fromkeys(("arange", "linspace"), ("requires_grad",)),
    **dict.fromkeys(("scaled_dot_product_attention", "rrelu", "gumbel_softmax"), ("generator",)),
}
"""Parameters that torch's schemas do not name: kept from the prototype, or numpy's names, which torch takes too."""

ATEN = {"logsigmoid": "log_sigmoid", "unique": "unique_dim"}
"""Names that torch's functions have in its schemas."""


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a public function."""
    return dict(inspect.signature(getattr(repdl.ops, name)).parameters)


def test_coverage__every_public_function_is_compared_with_torch() -> None:
    assert set(repdl.ops.__all__) == TORCH.keys() | STEPS


@pytest.mark.parametrize("name", repdl.ops.__all__)
def test_coverage__docstring(name: str) -> None:
    text: Any = getattr(repdl.ops, name).__doc__
    assert text and "Contract: " in text and "Source: " in text, f"{name}: {text!r}"
    family = text.split("Contract: ")[1].split()[0]
    assert files("repdl.contract").joinpath("v1", f"{family}.md").is_file(), f"{name}: no contract {family}"


@pytest.mark.parametrize("name", sorted(TORCH))
def test_coverage__contract_keyword(name: str) -> None:
    contract = parameters(name)["contract"]
    assert contract.kind is inspect.Parameter.KEYWORD_ONLY and contract.default is None


@pytest.mark.parametrize("name", sorted(TORCH))
def test_coverage__parameter_names_are_torchs(name: str) -> None:
    mine = [p for p in parameters(name) if p != "contract" and p not in ADDED.get(name, ())]
    table = TORCH[name]
    if table is None:
        theirs = inspect.signature(getattr(torch.nn.functional, name)).parameters
        assert mine == list(theirs)
        assert [parameters(name)[p].default for p in mine] == [p.default for p in theirs.values()]
    else:
        assert mine == list(table)


def test_coverage__numpys_names_where_torch_takes_them() -> None:
    for name in TORCH:
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


@pytest.mark.parametrize("name", sorted(name for name, table in TORCH.items() if table))
def test_coverage__the_written_table_is_torchs(name: str) -> None:
    """torch's schemas know the names of the table, where its Python functions have no signature."""
    table = TORCH[name]
    assert table is not None
    spelled = {"self": table[0] if table[0] in ("A", "x") else "input"} | ({"b": "B"} if name == "lstsq" else {})
    schemas = [
        schema
        for aten in (ATEN.get(name, name), f"linalg_{name}")
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{aten}")
    ]
    known = {spelled.get(argument.name, argument.name) for schema in schemas for argument in schema.arguments}
    if name in PYTHON:
        known |= inspect.signature(getattr(torch, name)).parameters.keys()
    assert set(table) - {"return_indices"} <= known | ({"equation", "operands"} if name == "einsum" else set())
