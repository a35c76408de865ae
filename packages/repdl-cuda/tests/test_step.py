"""The constants of a step are the host's work: they have the contract's bits in every environment of the caller."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch

import repdl
from repdl.testing.compare import assert_same_bits
from repdl.testing.environment import DIRECTIONS, can_flush, flush_denormal, rounding

BACKENDS = {"cuda": "cuda", "cuda-emulated": "cpu"}
HERE = [name for name, row in repdl.backends().items() if name in BACKENDS and not row.error]
pytestmark = pytest.mark.usefixtures("one_stream")
ENVIRONMENTS = [*DIRECTIONS, *(["flush"] if can_flush() else [])]


def step(backend: str, environment: AbstractContextManager[object]) -> list[torch.Tensor]:
    """A step of Adam that divides by eps alone, a subnormal number: squares of gradients underflow."""
    state = [torch.arange(1, 1101).mul(scale).to(BACKENDS[backend]) for scale in (1e-3, 1e-30, 1e-40, 0.0)]
    with repdl.use_backend(backend), environment:
        repdl.ops.adam_step(
            *([tensor] for tensor in state),
            lr=1e-3,
            beta1=0.9,
            beta2=0.999,
            eps=1e-39,
            bias_correction1=0.3,
            bias_correction2=0.4,
            weight_decay=0.01,
            decoupled_weight_decay=True,
        )
    return state


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("backend", HERE)
def test_step__constants_in_any_environment(backend: str, environment: str) -> None:
    other: AbstractContextManager[object] = flush_denormal() if environment == "flush" else rounding(environment)
    assert_same_bits(step(backend, other), step(backend, nullcontext()), environment)
