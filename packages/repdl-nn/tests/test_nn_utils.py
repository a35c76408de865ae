"""repdl.nn.utils: clipping of gradients, fusion with normalisation, skip_init."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from itertools import permutations, product

import pytest
import torch

import repdl
from repdl import nn, ops
from repdl.nn import utils
from repdl.testing.compare import assert_same_bits

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SHAPES = ((7, 5), (300,), (), (2, 3, 4), (0, 3))


def _parameters(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(dtype)
    return [*parameters, torch.nn.Parameter(torch.zeros(2))]  # the last one has no gradient


@pytest.mark.parametrize("norm_type", [2.0, 1.0, "inf", 0.5, 3])
def test_clip_grad_norm__formula_and_torch(norm_type):
    for max_norm in (0.5, 1e6):
        ours, theirs, exact = (_parameters(d) for d in (torch.float32, torch.float32, torch.float64))
        before = [p.grad.clone() for p in ours[:-1]]
        total = utils.clip_grad_norm_(ours, max_norm, norm_type)
        full = [p for p in exact if p.numel()]  # for the maximum torch raises where there is none
        expected = torch.nn.utils.clip_grad_norm_(full, max_norm, float(norm_type))
        torch.nn.utils.clip_grad_norm_([p for p in theirs if p.numel()], max_norm, float(norm_type))
        assert abs(total - expected) <= 1e-6 * expected
        p = float(norm_type)
        norms = torch.stack([ops.vector_norm(grad, p) for grad in before if grad.numel()])
        assert_same_bits(total, ops.vector_norm(norms, p))
        factor = min(torch.tensor(max_norm) / (total + torch.tensor(1e-6)), torch.tensor(1.0))
        for parameter, grad, other in zip(ours, before, theirs):
            assert_same_bits(parameter.grad, grad * factor)
            assert torch.allclose(parameter.grad, other.grad, rtol=1e-5, atol=1e-7)
        assert ours[-1].grad is None


def test_clip_grad_norm__parts_are_the_whole():
    """get_total_norm, then clip_grads_with_norm_; generators, one tensor, none, foreach, and the first name."""
    whole, parts, old = _parameters(), _parameters(), _parameters()
    total = utils.clip_grad_norm_((p for p in whole), 0.1, foreach=True)
    assert_same_bits(utils.get_total_norm(p.grad for p in parts[:-1]), total)
    utils.clip_grads_with_norm_(parts, 0.1, total)
    with pytest.warns(FutureWarning, match="clip_grad_norm is deprecated"):
        assert_same_bits(utils.clip_grad_norm(old, 0.1), total)
    for a, b, c in zip(whole[:-1], parts, old):
        assert_same_bits(a.grad, b.grad)
        assert_same_bits(a.grad, c.grad)
    assert utils.get_total_norm([]) == 0 and utils.clip_grad_norm_([], 1.0) == 0
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_((p for p in []), 1.0)
    assert utils.get_total_norm(torch.ones(0, 2, dtype=torch.float64)).dtype is torch.float64
    single = _parameters()[0]
    assert_same_bits(
        utils.clip_grad_norm_(single, 1.0), ops.vector_norm(ops.vector_norm(_parameters()[0].grad).view(1))
    )


def test_clip_grad_norm__halves_and_several_dtypes():
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        parameters = _parameters(dtype)
        total = utils.clip_grad_norm_(parameters, 1.0)
        assert total.dtype is dtype and all(p.grad.dtype is dtype for p in parameters[:-1])
        assert utils.get_total_norm([p.grad for p in parameters[:-1]]) <= 1.02
    mixed = [*_parameters()[:2], *_parameters(torch.bfloat16)[:2]]
    assert utils.clip_grad_norm_(mixed, 1.0).dtype is torch.float32 and mixed[-1].grad.dtype is torch.bfloat16
    assert abs(utils.get_total_norm([p.grad for p in mixed]) - 1) < 0.01


@pytest.mark.parametrize("dtypes", [*permutations(FLOATS, 2), *product(FLOATS, repeat=3)], ids=str)
def test_clip_grad_norm__dtype_is_promoted_in_any_order(dtypes):
    grads = [torch.tensor([3.0, 4.0], dtype=dtype) for dtype in dtypes]
    total, expected = utils.get_total_norm(grads), torch.nn.utils.get_total_norm(grads)
    assert total.dtype is expected.dtype is functools.reduce(torch.promote_types, dtypes)
    assert_same_bits(total, ops.vector_norm(torch.tensor([5.0] * len(dtypes), dtype=total.dtype)))


def test_clip_grad_norm__not_finite():
    for value in (math.inf, math.nan):
        parameters = _parameters()
        parameters[1].grad[3] = value
        before = [p.grad.clone() for p in parameters[:-1]]
        with pytest.raises(RuntimeError, match="expected a finite number"):
            utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
        for parameter, grad in zip(parameters, before):
            assert_same_bits(parameter.grad, grad)
        utils.clip_grad_norm_(parameters, 1.0)
        assert parameters[1].grad[3].isnan()


def test_clip_grad_norm__order_and_threads():
    """The norms are joined in the order of the parameters, and no thread count changes a bit."""
    grads = [torch.randn(5000, generator=torch.Generator().manual_seed(i)) for i in range(20)]
    totals = []
    for threads in (1, 3):
        before = repdl.get_num_threads()
        repdl.set_num_threads(threads)
        totals.append(utils.get_total_norm(grads, contract="sequential"))
        repdl.set_num_threads(before)
    assert_same_bits(*totals)
    assert abs(utils.get_total_norm(grads[::-1]) - totals[0]) < 1e-4


def test_clip_grad_value__as_torch():
    ours, theirs = _parameters(), _parameters()
    for parameters in (ours, theirs):
        parameters[1].grad[:4] = torch.tensor([math.nan, math.inf, -0.0, -math.inf])
    utils.clip_grad_value_(ours, 0.25)
    torch.nn.utils.clip_grad_value_(theirs, 0.25)
    for a, b in zip(ours[:-1], theirs):
        assert_same_bits(a.grad, b.grad)


def test_clip_grad__wrong_arguments():
    for call in (
        lambda: utils.clip_grad_norm_(_parameters(), "1"),
        lambda: utils.clip_grad_norm_(_parameters(), 1.0, norm_type="two"),
        lambda: utils.get_total_norm([1.0]),
        lambda: utils.clip_grad_value_(_parameters(), None),
        lambda: utils.clip_grad_norm_(_parameters(), 1.0, foreach=2),
    ):
        with pytest.raises(TypeError, match="expected"):
            call()


@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "ConvTranspose2d", "Linear"])
def test_fuse__computes_what_both_do(kind, uniform):
    for bias, affine in ((True, True), (False, True), (True, False)):
        sizes = (3, 6) if kind == "Linear" else (3, 6, 2)
        layer = getattr(nn, kind)(*sizes, bias=bias)
        bn = nn.BatchNorm2d(6, affine=affine) if kind.endswith("2d") else nn.BatchNorm1d(6, affine=affine)
        with torch.no_grad():
            for i, tensor in enumerate((*layer.parameters(), *bn.parameters(), bn.running_mean, bn.running_var)):
                tensor.copy_(uniform(*tensor.shape) if i < 4 else uniform(*tensor.shape).abs() + 0.5)
            bn.running_var.abs_()
        layer.eval(), bn.eval()
        x = uniform(4, 3, *((5,) * (0 if kind == "Linear" else int(kind[-2]))))
        if kind == "Linear":
            fused = utils.fuse_linear_bn_eval(layer, bn)
        else:
            fused = utils.fuse_conv_bn_eval(layer, bn, transpose="Transpose" in kind)
        assert type(fused) is type(layer) and fused is not layer and fused.bias is not None
        assert torch.allclose(fused(x), bn(layer(x)), atol=3e-6)
        theirs = (
            torch.nn.utils.fuse_conv_bn_weights(
                layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, "Transp" in kind
            )
            if kind != "Linear"
            else None
        )
        if theirs is not None:
            assert torch.allclose(fused.weight, theirs[0], atol=1e-6) and torch.allclose(
                fused.bias, theirs[1], atol=1e-6
            )


def test_fuse__formula():
    """Roundings in the order of the docstring, also where torch's rsqrt rounds otherwise."""
    weight, mean, var = torch.full((2, 3), 0.1), torch.tensor([0.3, -0.7]), torch.tensor([0.9, 3.3])
    scale, shift, bias = torch.tensor([1.1, 0.7]), torch.tensor([0.2, 0.1]), torch.tensor([0.5, -0.3])
    fused = utils.fuse_linear_bn_weights(weight, bias, mean, var, 1e-5, scale, shift)
    k = scale * (torch.tensor(1.0) / (var + torch.tensor(1e-5)).sqrt())
    assert_same_bits(fused[0].detach(), weight * k[:, None])
    assert_same_bits(fused[1].detach(), (bias - mean) * k + shift)


def test_fuse__halves_beside_float32():
    conv, bn = nn.Conv2d(1, 2, 1, dtype=torch.bfloat16).eval(), nn.BatchNorm2d(2).eval()
    bn.running_var.copy_(torch.tensor([0.3, 1.7]))
    fused = utils.fuse_conv_bn_eval(conv, bn)
    assert fused.weight.dtype is torch.bfloat16 and fused.bias.dtype is torch.bfloat16
    k = torch.tensor(1.0) / (bn.running_var + torch.tensor(1e-5)).sqrt()
    assert_same_bits(fused.weight.detach(), (conv.weight.float() * k.view(2, 1, 1, 1)).bfloat16().detach())


def test_fuse__errors():
    conv, bn = nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)
    with pytest.raises(RuntimeError, match="expected both in eval mode"):
        utils.fuse_conv_bn_eval(conv, bn)
    with pytest.raises(RuntimeError, match="no running statistics"):
        utils.fuse_conv_bn_eval(conv.eval(), nn.BatchNorm2d(2, track_running_stats=False).eval())
    with pytest.raises(ValueError, match="bn.num_features is 2, expected 3"):
        utils.fuse_linear_bn_eval(nn.Linear(1, 3).eval(), nn.BatchNorm1d(2).eval())


def test_skip_init__draws_nothing():
    state = repdl.random.get_state()
    layer = utils.skip_init(nn.Linear, 3, 4, contract="sequential")
    assert type(layer) is nn.Linear and layer.weight.shape == (4, 3) and layer.contract == "sequential"
    with repdl.random.fork_rng():
        repdl.random.manual_seed(1)
        first = repdl.random.rand(3)
        repdl.random.manual_seed(1)
        utils.skip_init(nn.Conv2d, 1, 2, 3)
        assert torch.equal(repdl.random.rand(3), first)
    assert utils.skip_init(torch.nn.Linear, 3, 4, device="meta").weight.is_meta
    with pytest.raises(TypeError, match="takes no device"):
        utils.skip_init(nn.ReLU)
    assert torch.equal(state, repdl.random.get_state())


def test_vectors_and_stateless_are_torchs():
    model = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(model.parameters())
    other = copy.deepcopy(model)
    utils.vector_to_parameters(ops.mul(vector, 2.0).detach(), other.parameters())
    assert torch.equal(other.weight, 2 * model.weight)
    x = torch.ones(1, 2)
    called = utils.stateless.functional_call(model, dict(other.named_parameters()), (x,))
    assert_same_bits(called, other(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert utils.convert_conv2d_weight_memory_format(nn.Conv2d(2, 2, 1), torch.channels_last) is not None
