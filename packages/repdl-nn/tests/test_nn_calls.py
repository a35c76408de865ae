"""The calls of a converted model: what its own code calls of torch is computed by RepDL, or refused."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl.overrides.torchs import is_within
from watched import (
    Model,
    Outer,
    converted,
    dropout,
    fine,
    is_same,
    line_of,
    mean,
    products,
    refusal,
    refused,
    scaled,
    x,
)


def test_call__functions_of_torch_have_the_bits_of_enable() -> None:
    owns: list[Callable[[Model, torch.Tensor], torch.Tensor]] = [
        *(fine, products, mean, dropout, scaled),
        lambda model, q: F.layer_norm(q, (4,), model.layer.bias) @ model.layer.weight,
        lambda model, q: q.exp().sum(0).expand(4, 4) * q.std(),
        lambda model, q: torch.stack([q.T, q]).softmax(0).view(8, 4) / 3 + 0.1,
        lambda model, q: q.mul_(2).add_(q.tanh(), alpha=0.3).clamp(-1, 1),
        lambda model, q: q.bfloat16().matmul(q.bfloat16().T).float(),
        lambda model, q: torch.einsum("ij,kj->ik", q, q).cumsum(1),
        lambda model, q: q + torch.randn_like(q) * torch.rand(4),
        lambda model, q: F.interpolate(q[None, None], scale_factor=2, mode="bilinear")[0, 0],
    ]
    for number, own in enumerate(owns):
        assert is_same(own), number


def test_call__what_is_outside_stays_torchs() -> None:
    model = converted(products)
    for call in (lambda: model(x), lambda: refusal(lambda: converted(refused)(x))):
        call()
        y = x.clone().requires_grad_()
        assert torch.softmax(y, -1).grad_fn.name() == "SoftmaxBackward0" and torch.linalg.svdvals(y).shape == (4,)


def test_call__belongs_to_its_thread() -> None:
    """Another thread computes by torch meanwhile."""
    found: list[str] = []

    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=lambda: found.append(torch.exp(x.clone().requires_grad_()).grad_fn.name()))
        thread.start()
        thread.join()
        found.append(q.exp().grad_fn.name())
        return q

    converted(own)(x)
    assert found == ["ExpBackward0", "exp_with_derivativeBackward"]


def test_call__refusal_has_op_module_line_and_remedy() -> None:
    text = refusal(lambda: repdl.from_torch_module(Outer(Model(refused)))(x))
    assert text.startswith(
        "Outer, converted by from_torch_module: not reproducible: aten._linalg_svd.default in blocks.0, "
    )
    assert line_of(refused, "svdvals") in text and "from_torch_module(strict=False) makes this a warning" in text

    def spectrum(model: Model, q: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(q).real

    assert line_of(spectrum, "torch.fft") in refusal(lambda: converted(spectrum)(x))

    def special(model: Model, q: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(q)

    assert line_of(special, "torch.special") in refusal(lambda: converted(special)(x))


def test_call__not_strict() -> None:
    model = converted(refused, strict=False)
    with pytest.warns(UserWarning, match=r"Model, converted .* aten\._linalg_svd") as caught:
        output = model(x)
    assert caught[0].filename == __file__.replace("test_nn_calls", "watched") and output.shape == (4,)
    assert not is_within()


def test_call__layers_that_were_left_as_they_are() -> None:
    class Computed(torch.nn.Linear):
        weight = property(lambda self: torch.ones(4, 4))

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.bias = torch.nn.Parameter(torch.ones(4))

    with pytest.warns(UserWarning, match="can't be converted"):
        model = repdl.from_torch_module(torch.nn.Sequential(torch.nn.Linear(4, 4), Computed()), strict=False)
    assert model(x).grad_fn.name() == "linear_with_derivativeBackward"


def test_call__a_layer_of_ones_own() -> None:
    class Own(repdl.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.tanh(super().forward(input))

    assert repdl.from_torch_module(Own(4, 4))(x).grad_fn.name() == "tanh_with_derivativeBackward"


def test_call__modes_of_torch() -> None:
    """Without gradients, in inference mode and under autocast."""

    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        return F.softmax(F.linear(q, model.layer.weight) @ q.T, -1).mean(0)

    for mode in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)):
        with mode():
            found = converted(own)(x)
            with repdl.enabled():
                expected = Model(own)(x)
        assert found.dtype is expected.dtype and torch.equal(found, expected)


def test_call__under_enable() -> None:
    """What holds in all threads holds in the model: the draws of its functions are torch's generator's."""
    model = converted(dropout)
    with repdl.enabled():
        torch.manual_seed(3)
        found = [model(x), F.dropout(x)]
        torch.manual_seed(3)
        assert torch.equal(found[0], model(x)) and "_linalg_svd" in refusal(lambda: converted(refused)(x))
    assert not is_within()


def test_call__draws_are_those_of_repdl() -> None:
    """Whatever torch draws in between: its own generator is not touched, and other masks follow."""
    model, plain = converted(dropout), Model(dropout)
    repdl.random.manual_seed(3)
    before = torch.get_rng_state()
    masks = []
    for _ in range(4):
        masks.append(model(x) == 0)
        assert torch.equal(before, torch.get_rng_state())
        torch.rand(3)
        before = torch.get_rng_state()
    assert not any(torch.equal(masks[0], mask) for mask in masks[1:])
    for _ in range(2):  # a call that is recorded in one of the two ways is none of the other
        with repdl.enabled():
            torch.manual_seed(3)
            for mask in masks:
                assert torch.equal(plain(x) == 0, mask)
        repdl.random.manual_seed(3)
        for mask in masks:
            assert torch.equal(model(x) == 0, mask)
    generator = torch.Generator()
    text = refusal(lambda: converted(lambda model, q: q * torch.rand(4, generator=generator))(x))
    assert "draws from a torch.Generator on cpu, expected none" in text


def test_call__ops_of_others_are_refused() -> None:
    library = torch.library.Library("repdl_test_calls", "DEF")
    library.define("later(Tensor x) -> Tensor")
    model = converted(lambda model, q: torch.ops.repdl_test_calls.later(q.detach()))
    converted(fine)(x)
    library.define("composed(Tensor x) -> Tensor")
    library.impl("later", lambda value: value.exp(), "CPU")
    library.impl("composed", lambda value: value.exp(), "CompositeImplicitAutograd")
    assert "repdl_test_calls.later.default" in refusal(lambda: model(x))
    found = converted(lambda model, q: torch.ops.repdl_test_calls.composed(q))
    assert found(x).grad_fn.name() == "exp_with_derivativeBackward"
    with torch.inference_mode():
        assert torch.equal(found(x), repdl.ops.exp(found.layer(x)))
    library._destroy()


def test_call__audit_of_a_converted_model() -> None:
    report = repdl.audit(converted(refused, strict=False), x)
    assert "aten._linalg_svd.default" in {row.op for row in report.refused}
    assert repdl.audit(converted(products), x).ok


def test_call__hooks_of_the_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    assert not repdl.from_torch_module(model[0])._forward_pre_hooks, "a layer alone has no code"
    model[0].register_forward_hook(lambda module, args, output: output.softmax(-1))
    later = repdl.from_torch_module(model)
    later[1].register_forward_hook(lambda module, args, output: output.exp())
    found = later(x)
    with repdl.enabled():
        assert torch.equal(found, model(x).exp())


def test_call__sparse_tensors() -> None:
    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(torch.eye(4).to_sparse(), q)

    with pytest.raises((repdl.errors.RepDLError, NotImplementedError)):
        converted(own)(x)
    assert not is_within()


def test_call__warns_once_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model: Any = converted(products)
        model(x).sum().backward()
