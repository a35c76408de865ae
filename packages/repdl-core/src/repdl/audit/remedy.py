"""What to call in place of an op of torch."""

from __future__ import annotations

import re
from typing import Any

from repdl import ops, random

_RENAMED = {
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_batch_norm": "batch_norm",
    "native_batch_norm_legit": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "native_dropout": "dropout",
    "fused_dropout": "dropout",
    "clamp_min": "clamp",
    "clamp_max": "clamp",
    "amax": "max",
    "mv": "matmul",
    "dot": "matmul",
    "nll_loss2d": "nll_loss",
    "threshold": "relu",
    "rsub": "sub",
    "prelu_kernel": "prelu",
    "safe_softmax": "softmax",
}
_PARTS = re.compile(r"^_+|_$|(_with_indices|_forward|_data|_backward|_for_cpu)+$")


def remedy(op: Any, called: str, derivative: str) -> str | None:
    """The function of RepDL for an op, or for the function that the user called, or None.

    Args:
        op: the op.
        called: the function of Python that reached it, such as `softmax` of `F.softmax`.
        derivative: the name of the node of autograd that reached it, such as `MulBackward0`.
    """
    name = op.name().partition("::")[2].partition(".")[0]
    node = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", derivative.partition("Backward")[0]).lower()
    for wanted in [node, called, name] if derivative else [called, name]:
        plain = _PARTS.sub("", wanted)
        for candidate in (wanted, plain, _PARTS.sub("", plain), _RENAMED.get(plain, "")):
            if callable(vars(ops).get(candidate)):
                return f"repdl.ops.{candidate}"
            if not derivative and callable(vars(random).get(candidate)):
                return f"repdl.random.{candidate}"
    if "convolution" in name:
        return "repdl.ops.conv2d"
    return "repdl.ops.scaled_dot_product_attention" if "scaled_dot_product" in name else None


__all__ = ["remedy"]
