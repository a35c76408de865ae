"""What autograd saves does not depend on the way of a call: the function, the one that is recorded, or a replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import repdl
from repdl import callcache, ops, registry
from repdl.callcache import c_extension
from repdl.errors import RepDLError
from repdl.settings.generation import GENERATION
from repdl.testing import assert_same_bits, opinfo, uniform
from repdl.testing.cases import cases

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")

Tensor = torch.Tensor
TIMES = 4
"""The function twice, the second time recorded, and replays."""
OTHER_SHAPES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "linear": (ops.linear, lambda: (uniform(1, 2, 4, 8), uniform(2, 3, 8), uniform(3, 3))),
    "linear of a vector": (ops.linear, lambda: (uniform(1, 8), uniform(2, 3, 8))),
    "matmul": (ops.matmul, lambda: (uniform(1, 2, 4, 8), uniform(2, 8, 3))),
    "prelu": (ops.prelu, lambda: (uniform(1, 2, 4, 8), uniform(2, 4))),
    "an output in another shape": (
        callcache.cache_calls(lambda x: registry.functions.exp(x.reshape(-1, 4)).reshape(x.shape)),
        lambda: (uniform(1, 2, 3, 4),),
    ),
}


def shown(tensor: Tensor, memory: list[int]) -> tuple[Any, ...]:
    """What is compared: shape, dtype, and in which tensor of the call it is, or else its bytes."""
    place = memory.index(tensor.data_ptr()) if tensor.numel() and tensor.data_ptr() in memory else -1
    values = b"" if place >= 0 else tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
    return tuple(tensor.shape), tensor.dtype, place, values


def saved(call: Callable[..., Any], args: Any, kwargs: Any) -> list[tuple[Any, ...]]:
    """All that the nodes of a call save, in their order."""
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        results = opinfo.tensors_of(call(*args, **kwargs))
    given = [*opinfo.tensors_of((args, kwargs)), *results]
    return [shown(tensor, [t.data_ptr() for t in given]) for tensor in kept]


def differing(name: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[str]:
    GENERATION.advance()
    first = saved(call, args, kwargs)
    for time in range(2, TIMES + 1):
        again = saved(call, args, kwargs)
        if again != first:
            yield f"{name}: call {time} saves {again}, the first one {first}"


def test_replay_saved__registered_ops() -> None:
    """Of each op a case in float32 and one in another dtype, with all gradients and with those of one operand."""
    seen, wrong = set[Any](), []
    for case in cases():
        if not registry.OPS[case.op].differentiable or (case.op, case.derived) in seen:
            continue
        if (case.op, None) in seen and len([op for op, _ in seen if op == case.op]) > 1:
            continue
        args = case.args()
        floating = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.is_floating_point()]
        if not floating or any(a.numel() > 4096 for a in args if isinstance(a, Tensor)):
            continue
        seen.add((case.op, case.derived))
        for wanted in (floating, *([i] for i in floating if len(floating) > 1)):
            given = [a.detach().requires_grad_(i in wanted) if i in floating else a for i, a in enumerate(args)]
            wrong += differing(f"{case} {wanted}", getattr(registry.functions, case.op), given, {})
    assert not wrong, "\n".join(wrong)
    assert len({op for op, _ in seen}) > 150


def test_replay_saved__functions() -> None:
    """On samples of torch's database, ours and, while enabled, torch's."""
    pytest.importorskip("expecttest", reason="torch's database of ops needs it")
    known: list[tuple[str, Any, Any, Any]] = []
    wrong, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its samples
        for name in ops.__all__:
            for info in opinfo.entries(name):
                for sample in opinfo.samples(info, torch.float32, 2):
                    known.append(
                        (name, info, *opinfo.mapped(opinfo.fresh, ((sample.input, *sample.args), sample.kwargs)))
                    )
        for enabled in (False, True):
            with repdl.enabled() if enabled else nullcontext():
                for name, info, args, kwargs in known:
                    call = info.op if enabled else opinfo.ours(name, info)
                    with suppress(RepDLError, RuntimeError, TypeError, ValueError, opinfo.Skipped):
                        wrong += differing(f"{name}, enabled: {enabled}", call, args, kwargs)
                        count += 1
    assert not wrong, "\n".join(wrong)
    assert count > 400


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_replay_saved__operands_in_another_shape(name: str) -> None:
    function, make = OTHER_SHAPES[name]
    args = [a.requires_grad_() for a in make()]
    assert not [*differing(name, function, args, {})]
    plain: Any = function
    expected, found = plain.__wrapped__(*args), function(*args)
    twice: list[Any] = []
    for results in (expected, found):
        grads = torch.autograd.grad(results, args, torch.ones_like(results), create_graph=True)
        twice.append(torch.autograd.grad(sum(g.square().sum() for g in grads), args, allow_unused=True))
    for actual, wanted in zip(*twice):
        assert (actual is None) == (wanted is None), name
        if wanted is not None:
            assert_same_bits(actual, wanted, name)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.between, self.second = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(self.first(x)))


@pytest.mark.parametrize("way", ["enabled", "converted"])
def test_replay_saved__a_checkpoint_computes_again(way: str) -> None:
    """The first calls are the function's in the forward and a replay's in the backward."""
    torch.manual_seed(0)
    block = Block()
    model = block if way == "enabled" else repdl.from_torch_module(block)
    x = uniform(1, 2, 4, 8)
    GENERATION.advance()

    def grads(through: Callable[..., Tensor]) -> list[Tensor]:
        given = x.clone().requires_grad_()
        loss = through(model, given)
        return [*torch.autograd.grad(loss, (given, *model.parameters()), torch.ones_like(loss))]

    with repdl.enabled() if way == "enabled" else nullcontext():
        for _ in range(4):
            found = grads(lambda f, a: checkpoint(f, a, use_reentrant=False))
        expected = grads(lambda f, a: f(a))
    assert_same_bits(found, expected)
