"""CPU backend of RepDL: C++ kernels, one source for every ISA, picked at run time.

`REPDL_CPU_ISA` (baseline, avx2, avx512) caps what is picked. The bits do not depend on it.
"""

from __future__ import annotations

from repdl.registry import Backend
from repdl_cpu import (
    activation,
    adam_step,
    batch_norm,
    cast,
    conv2d,
    cross_entropy,
    elementwise,
    group_norm,
    layer_norm,
    linear,
    matmul,
    max,
    max_pool2d,
    nll_loss,
    pad,
    pow,
    rms_norm,
    sgd_step,
    softmax,
    sum,
)
from repdl_cpu.isa import get_isa, supported_isas, use_isa

__version__ = "0.1.0"

DOUBLE = (
    adam_step,
    batch_norm,
    conv2d,
    elementwise,
    group_norm,
    layer_norm,
    linear,
    matmul,
    max,
    max_pool2d,
    nll_loss,
    pad,
    rms_norm,
    sgd_step,
    sum,
)
"""Families that have float64 kernels."""

backend = Backend(
    name="cpu",
    device="cpu",
    ops={
        op: function
        for module in (
            activation,
            adam_step,
            batch_norm,
            cast,
            conv2d,
            cross_entropy,
            elementwise,
            group_norm,
            layer_norm,
            linear,
            matmul,
            max,
            max_pool2d,
            nll_loss,
            pad,
            pow,
            rms_norm,
            sgd_step,
            softmax,
            sum,
        )
        for op, function in module.OPS.items()
    },
    priority=100,
    float64=[op for module in DOUBLE for op in module.OPS],
    describe=lambda: {"version": __version__, "isa": get_isa(), "supported": " ".join(supported_isas())},
)

__all__ = ["backend", "get_isa", "supported_isas", "use_isa"]
