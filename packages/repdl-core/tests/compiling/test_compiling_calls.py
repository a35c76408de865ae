"""`torch.compile(backend="repdl")`: what may be another in a later call, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.autograd import forward_ad
from torch.func import hessian, jacfwd, jvp

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="repdl", **options)


def _dual(x: Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(x, x).exp()).tangent


FORWARD_MODE: dict[str, Callable[[Tensor], Any]] = {
    "jvp": lambda x: jvp(lambda t: t * t, (x,), (x,))[1],
    "hessian": hessian(lambda t: (t * t * t).sum()),
    "jacfwd": jacfwd(lambda t: t.exp()),
    "dual_level": _dual,
}


@pytest.mark.parametrize("name", FORWARD_MODE)
def test_compiling__refuses_forward_mode(name: str) -> None:
    with repdl.enabled(), pytest.raises(UnsupportedError, match="forward-mode differentiation"):
        compiled(FORWARD_MODE[name])(uniform(0, 4))


def test_compiling__forward_mode_of_our_functions_is_refused_by_any_backend() -> None:
    with pytest.raises(UnsupportedError, match="tanh: called in forward-mode"):
        torch.compile(lambda x: jvp(ops.tanh, (x,), (x,))[1], backend="aot_eager")(uniform(0, 4))


@pytest.mark.parametrize("first_overlaps", [False, True])
def test_compiling__writes_into_tensors_that_overlap_in_one_call_only(first_overlaps: bool) -> None:
    def grow(a: Tensor, b: Tensor) -> None:
        a.mul_(2)
        b.mul_(3)

    def calls(function: Any) -> list[Tensor]:
        apart, base = [uniform(0, 4, 6), uniform(1, 4, 6)], uniform(2, 8, 6)
        halves, overlapping = [base[:4], base[4:]], [base[:4], base[2:6]]
        for pair in (overlapping, apart, halves) if first_overlaps else (apart, halves, overlapping):
            function(*pair)
        return [*apart, base]

    with repdl.enabled():
        for ours, wanted in zip(calls(compiled(grow)), calls(grow)):
            assert_same_bits(ours, wanted)


def test_compiling__runs_a_backward_twice_if_it_is_kept() -> None:
    def gradient(function: Any) -> Tensor:
        w = uniform(0, 4, 4).requires_grad_()
        loss = function(uniform(1, 3, 4), w)
        loss.backward(retain_graph=True)
        loss.backward()
        assert w.grad is not None
        return w.grad

    def loss(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh().sum()

    with repdl.enabled():
        assert_same_bits(gradient(compiled(loss)), gradient(loss))


def test_compiling__calls_hooks_that_come_later() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    function, x = compiled(model), uniform(0, 3, 4)
    with repdl.enabled():
        function(x)
        model[0].register_forward_hook(lambda _module, _args, output: output * 2)
        assert_same_bits(function(x), model(x))


def test_compiling__a_module_compiles_itself() -> None:
    x = uniform(0, 3, 4)
    with repdl.enabled():
        for module in (nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()):
            wanted = module(x)
            module.compile(backend="repdl", fullgraph=True)
            assert_same_bits(module(x), wanted)


def test_compiling__sizes_are_numbers() -> None:
    with repdl.enabled():
        places = compiled(lambda x: torch.arange(x.shape[0]), dynamic=True)
        assert [places(uniform(0, n, 4)).tolist() for n in (3, 5)] == [[0, 1, 2], [0, 1, 2, 3, 4]]


def test_compiling__a_converted_network_with_sizes_that_change() -> None:
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    model = repdl.from_torch_module(nn.Sequential(*layers)).eval()
    function = compiled(model, dynamic=True)
    for batch in (4, 2, 3):
        x = uniform(batch, batch, 1, 8, 8)
        assert_same_bits(function(x), model(x))


def test_compiling__what_ends_in_compiled_code_goes_on() -> None:
    def ends(x: Tensor) -> Tensor:
        y = x.exp()
        repdl.disable()
        return y

    with repdl.enabled():
        with pytest.raises(RuntimeError, match=r"repdl\.enable, disable: called in a function that torch\.compile"):
            compiled(ends)(uniform(0, 3))
        with pytest.raises(UnsupportedError, match="lgamma"):
            torch.ones(2).lgamma()
    with repdl.enabled(), pytest.raises(UnsupportedError, match="lgamma"):
        torch.ones(2).lgamma()


def test_compiling__has_no_modes() -> None:
    with repdl.enabled(), pytest.raises(BackendCompilerFailed, match="expected neither mode nor options"):
        compiled(torch.exp, mode="reduce-overhead")(uniform(0, 3))


def test_compiling__numpy_is_traced_to_reproducible_ops() -> None:
    x = uniform(0, 5)
    with repdl.enabled():
        assert_same_bits(compiled(lambda x: torch.from_numpy(np.cos(x.numpy())))(x), x.cos())
