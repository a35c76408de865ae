"""What to call in place of an op of torch."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from repdl import ops, random
from repdl.audit.collectives import REDUCTIONS, is_collective
from repdl.random.discrete import UNAVAILABLE
from repdl.registry.aten import OVERRIDES

_RENAMED = {
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_batch_norm": "batch_norm",
    "native_batch_norm_legit": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "native_dropout": "dropout",
    "fused_dropout": "dropout",
    "clamp_max": "clamp",
    "rsub": "sub",
    "prelu_kernel": "prelu",
    "safe_softmax": "softmax",
    "linalg_cross": "cross",
}
_PRODUCTS = {"linear", "bilinear", "matmul", "einsum", "tensordot", "inner", "outer", "multi_dot", "chain_matmul"}
_CONVOLUTIONS = {f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}
_PARTS = re.compile(r"^_+|_$|(_with_indices|_forward|_data|_backward|_for_cpu)+$")


def remedy(op: Any, called: str, derivative: str, source: str = "") -> str | None:
    """The function of RepDL for an op, or for the function that the user called, or None.

    Args:
        op: the op.
        called: the function of torch that the program calls, such as `nn.functional.softmax` (`audit/called.py`).
        derivative: the name of the node of autograd that reached it, such as `MulBackward0`.
        source: the line, which where nothing better is known names what is composed of several ops, such as `F.linear`.
    """
    if is_collective(op.name()):
        instead = REDUCTIONS.get(op.name().partition("::")[2])
        return instead and f"repdl.distributed.{instead}"
    name = op.name().partition("::")[2].partition(".")[0]
    if "svd" in name:
        return None  # of norms, say, by singular values, which no function has
    counterpart = _counterpart(called)
    if counterpart is not None:
        return counterpart
    if called.startswith(("optim.", "nn.utils.")) and not derivative:
        return None
    node = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", derivative.partition("Backward")[0]).lower()
    if called == "linalg.norm":  # which is another function than torch.norm
        called = "vector_norm" if "linalg_vector_norm" in (name, node) else "matrix_norm"
    called = called.rpartition(".")[2]
    written = None if called else _written(name, source)
    if written is not None:
        return f"repdl.ops.{written}"
    if node == "unfold":
        return None  # of a tensor: windows as a view, which those of F.unfold are not
    for wanted in [called, node, name] if derivative else [called, name]:
        plain = _PARTS.sub("", wanted)
        for candidate in (wanted, plain, _PARTS.sub("", plain), _RENAMED.get(plain) or _function_of(plain)):
            if callable(vars(ops).get(candidate)):
                return f"repdl.ops.{candidate}"
            if not derivative and candidate not in UNAVAILABLE and callable(vars(random).get(candidate)):
                return f"repdl.random.{candidate}"
    if "convolution" in name:
        return "repdl.ops.conv2d"
    return "repdl.ops.scaled_dot_product_attention" if "scaled_dot_product" in name else None


def _function_of(name: str) -> str:
    """The name of the function that is declared to compute an op of torch, or ""."""
    override = OVERRIDES.get(name)
    return "" if override is None else getattr(override.function, "__name__", "")


def _counterpart(called: str) -> str | None:
    """The counterpart in RepDL of a function of `torch.nn` or of an optimizer; None without one."""
    module, _, name = called.rpartition(".")
    if module.partition(".")[0] not in ("nn", "optim"):
        return None
    try:
        found = import_module(f"repdl.{module}")
    except ModuleNotFoundError:
        return None
    return f"repdl.{called}" if name in found.__all__ else None


def _written(name: str, source: str) -> str | None:
    """What a line calls a product or a convolution that torch makes of other ops, if that is all it can mean."""
    family = _CONVOLUTIONS if "convolution" in name else _PRODUCTS if name in ("mm", "bmm", "addmm", "mv") else set()
    found = family & set(re.findall(r"(\w+)\(", source))
    if len(found) == 1:
        return found.pop()
    return "matmul" if name == "bmm" and not found and re.search(r"\S @ |@=", source) else None


__all__ = ["remedy"]
