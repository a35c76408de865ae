"""`repdl.enable`: torch's ops with RepDL's bits, or an error."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from enabling import same, values

import repdl
from repdl import ops
from repdl.audit.op_classes import OpClass, class_of
from repdl.overrides.functions import functions


def test_enable__forms_of_an_op() -> None:
    x, y = values(70, 70), values(70, 70)
    expected = ops.addmm(x, x, y, alpha=0.3)
    with repdl.enabled():
        assert same(torch.addmm(x, x, y, alpha=0.3), expected)
        assert same(x.clone().addmm_(x, y, alpha=0.3), expected)
        out = torch.empty(0)
        assert torch.addmm(x, x, y, alpha=0.3, out=out) is out
        assert same(out, expected)
        with torch.inference_mode():
            assert same(torch.addmm(x, x, y, alpha=0.3), expected)
        assert same(torch._foreach_mul([x, y], 0.1)[1], ops.mul(y, 0.1))
        given = [x.clone(), y.clone()]
        torch._foreach_add_(given, [y, x], alpha=0.1)
        assert same(given[0], ops.add(x, y, alpha=0.1))
        assert same(torch.max(x, 1).values, ops.max(x, 1)[0])
        assert same(torch.rsub(x, y, alpha=0.7), ops.sub(y, x, alpha=0.7))


def test_enable__lists_of_tensors_again_and_again() -> None:
    with repdl.enabled():
        for length in (1, 7, 8, 20):
            for start in range(4):  # the second call is recorded, those after it are replayed
                x = [values(3 + i, 5) + start for i in range(length)]
                x[-1] = x[0]
                gradients = [t.clone().requires_grad_() for t in x]
                norms, scaled, tracked = (
                    torch._foreach_norm(x),
                    torch._foreach_mul(x, 0.1),
                    torch._foreach_exp(gradients),
                )
                numbers = torch._foreach_add([torch.full((3,), start), torch.ones(2)], 2)
                torch.autograd.backward([t.sum() for t in tracked])
                for t, norm, product, exp, leaf in zip(x, norms, scaled, tracked, gradients):
                    assert same(norm, ops.vector_norm(t)) and same(product, ops.mul(t, 0.1)) and same(exp, ops.exp(t))
                    assert same(leaf.grad, ops.exp(t))
                assert numbers[0].tolist() == [start + 2] * 3 and numbers[1].tolist() == [3.0, 3.0]


def test_enable__gradients_are_those_of_repdls() -> None:
    x, w = values(5, 70), values(70, 3)
    a, b, c, d = (t.clone().requires_grad_() for t in (x, w, x, w))
    ops.sum(ops.softmax(ops.mul(ops.mm(a, b), ops.mm(a, b)), 1)[:, 0]).backward()
    with repdl.enabled():
        ((c @ d) * (c @ d)).softmax(1)[:, 0].sum().backward()
    assert a.grad is not None and same(a.grad, c.grad) and same(b.grad, d.grad)


def test_enable__in_place_with_gradients() -> None:
    x = values(40).requires_grad_()
    y = values(40).requires_grad_()
    with repdl.enabled():
        z = x.clone()
        z.mul_(y).relu_().add_(x, alpha=0.1)
        z.sum().backward()
    a, b = x.detach().requires_grad_(), y.detach().requires_grad_()
    ops.sum(ops.add(ops.relu(ops.mul(a, b)), a, alpha=0.1)).backward()
    assert same(x.grad, a.grad) and same(y.grad, b.grad)
    with repdl.enabled(), pytest.raises(RuntimeError, match="leaf Variable"):
        x.mul_(2)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("name", "mode"), [("reflection", "reflect"), ("replication", "replicate")])
def test_enable__padding_by_torchs_own_ops(name: str, mode: str, dims: int) -> None:
    x, padding = values(2, 3, *(4, 5, 3)[:dims]), [2, 1] * dims
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    weight = values(*ops.pad(x, padding, mode).shape)
    ops.sum(ops.mul(ops.pad(a, padding, mode), weight)).backward()
    with repdl.enabled():
        (getattr(torch.ops.aten, f"{name}_pad{dims}d")(b, padding) * weight).sum().backward()
        integers = getattr(torch.ops.aten, f"{name}_pad{dims}d")(torch.ones_like(x, dtype=torch.int64), padding)
    assert a.grad is not None and same(a.grad, b.grad)
    assert integers.shape == weight.shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_enable__nan_of_halves(dtype: torch.dtype) -> None:
    """One NaN, in vectors and in the rest of a tensor, in every form."""
    numbers = torch.tensor([math.nan, -math.nan, 1.5, -2.25, math.inf, -0.0, 0.0] * 9, dtype=dtype)
    bits = numbers.view(torch.int16)
    bits[7::7], bits[8::7] = -1, 0x7FFE  # other NaN
    nan = numbers.isnan()
    expected = torch.tensor(math.nan, dtype=dtype).view(torch.int16)
    assert expected == {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00}[dtype]
    calls: dict[str, Callable[..., Any]] = {
        **{name: getattr(torch, name) for name in ("neg", "floor", "ceil", "round", "trunc", "frac")},
        **{f"{name}_": getattr(torch.Tensor, f"{name}_") for name in ("neg", "floor", "ceil", "round", "trunc")},
        "out": lambda x: torch.floor(x, out=torch.empty(0, dtype=dtype)),
        "list": lambda x: torch._foreach_neg([x])[0],
        "list_": lambda x: (torch._foreach_round_([x]), x)[1],
        "threshold_backward": lambda x: torch.ops.aten.threshold_backward(x, torch.ones_like(x), 0.0),
    }
    for name, call in calls.items():
        plain = call(numbers.clone())
        with repdl.enabled():
            result = call(numbers.clone())
        assert result.dtype is dtype
        assert (result.view(torch.int16)[nan] == expected).all(), name
        assert same(result[~nan], plain[~nan]), name
    x = numbers.clone().requires_grad_()
    with repdl.enabled():
        (-x).sum().backward()
    assert x.grad is not None and (x.grad == -1).all()


@pytest.mark.parametrize("nan", [0x7E00, 0x7C01, -0x0200, -1])
def test_enable__nan_of_float16_as_float32(nan: int) -> None:
    """One NaN, in vectors and in the rest of a tensor, whatever it was."""
    halves = torch.full((37,), nan, dtype=torch.int16).view(torch.float16)
    with repdl.enabled():
        found = [halves.float(), halves[0].float(), torch.empty(37).copy_(halves), halves.to(torch.float32, copy=True)]
    assert all((single.view(torch.int32) == 0x7FC00000).all() for single in found)


def test_enable__numbers_of_a_seed() -> None:
    draws = repdl.random.Generator(3)
    expected = repdl.random.randn(3, generator=draws), repdl.random.rand(2, generator=draws)
    dropped = ops.dropout(values(40), 0.5, generator=draws)
    with repdl.enabled():
        torch.manual_seed(3)
        assert torch.equal(torch.randn(3), expected[0])
        state = torch.get_rng_state()
        assert torch.equal(torch.rand(2), expected[1])
        assert torch.equal(F.dropout(values(40)), dropped)
        later = torch.randn(2)
        torch.set_rng_state(state)
        assert torch.equal(torch.rand(2), expected[1])
        assert torch.equal(F.dropout(values(40)), dropped)
        assert torch.equal(torch.randn(2), later)
        own = torch.Generator().manual_seed(3)
        assert torch.equal(torch.empty(3).normal_(generator=own), expected[0])
        assert sorted(torch.randperm(9, generator=own).tolist()) == list(range(9))
        with torch.random.fork_rng():
            torch.randn(5)
        torch.set_rng_state(state)
        assert torch.equal(torch.rand(2), expected[1])


def test_enable__checkpoint_recomputes_the_same_dropout() -> None:
    x = values(50).requires_grad_()
    with repdl.enabled():
        torch.manual_seed(0)
        torch.utils.checkpoint.checkpoint(lambda t: F.dropout(t * t), x, use_reentrant=False).sum().backward()
        got, x.grad = x.grad, None
        torch.manual_seed(0)
        F.dropout(x * x).sum().backward()
    assert torch.equal(got, x.grad)


def test_enable__printing_saving_copying() -> None:
    x = values(3, 4)
    with repdl.enabled():
        assert repr(x) and repr(x.double() * 1e9) and repr(torch.tensor([1e-9, float("nan")]))
        assert same(copy.deepcopy(x), x)
        repdl.digest({"x": x})


def test_enable__autocast() -> None:
    x, w = values(4, 8), values(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        expected = ops.linear(x, w)
        with repdl.enabled():
            assert same(F.linear(x, w), expected)


def test_enable__derivatives_of_what_moves_data() -> None:
    x, index = values(6, 5).requires_grad_(), torch.tensor([3, 1, 3, 0, 3])
    calls = [
        lambda t: t[index],
        lambda t: t[:, index[:2]],
        lambda t: t.take(index),
        lambda t: t.unfold(0, 3, 1),
        lambda t: t.index_select(1, index),
        lambda t: t.gather(0, index.unsqueeze(0)),
        lambda t: t.expand(3, 6, 5),
        lambda t: t.repeat(2, 2),
        lambda t: t.repeat_interleave(2, 0),
        lambda t: t.as_strided((4, 3), (1, 1)),
        lambda t: F.pad(t.unsqueeze(0), (2, 2), "reflect"),
        lambda t: torch.cat([t, t]).roll(1).flip(0),
    ]
    for call in calls:
        with repdl.enabled():
            y = call(x)
            (found,) = torch.autograd.grad(y, x, torch.ones_like(y))
        (expected,) = torch.autograd.grad(call(x), x, torch.ones_like(y))
        assert torch.equal(found, expected)  # small integers
    with repdl.enabled():
        given = torch.zeros(4)
        given[torch.tensor([1, 1, 2])] = torch.tensor([1.0, 2.0, 3.0])
        assert given.tolist() == [0, 2, 3, 0]
        given.index_put_((torch.tensor([1, 1]),), torch.tensor(1.0), accumulate=True)
        assert given.tolist() == [0, 4, 3, 0]


def test_enable__writes_where_each_element_has_memory_of_its_own() -> None:
    """Refused are exactly those of random layouts of which two elements have one address, counted one by one."""
    generator = torch.Generator().manual_seed(0)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    memory, seen = torch.zeros(200), {True: 0, False: 0}
    with repdl.enabled():
        for _ in range(400):
            sizes = [draw(1, 5) for _ in range(draw(1, 5))]
            reach, strides = 0, []
            for _ in sizes:  # at the edge: one less than what is apart, that, one more, or anything
                strides.append(max(0, draw(0, 12) if draw(0, 3) == 0 else reach + draw(-1, 2) + (reach == 0)))
                reach = max(reach, sum((n - 1) * s for n, s in zip(sizes, strides)) + 1)
            order = torch.randperm(len(sizes), generator=generator).tolist()
            sizes, strides = [sizes[i] for i in order], [strides[i] for i in order]
            if sum((n - 1) * s for n, s in zip(sizes, strides)) >= len(memory):
                continue
            view = memory.as_strided(sizes, strides)
            places = [sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*map(range, sizes))]
            overlaps = len(set(places)) < len(places)
            seen[overlaps] += 1
            refused = False
            try:
                view.add_(1.0)
            except repdl.UnsupportedError as error:
                refused = "memory" in str(error)
            assert refused == overlaps, (sizes, strides)
    assert min(seen.values()) > 80, seen


def test_enable__scaled_gradients() -> None:
    def scaled(scaler: Any, weight: torch.Tensor, factor: float) -> None:
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    found = []
    for context in (contextlib.nullcontext(), repdl.enabled()):
        weight = values(5).requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        with context:
            for factor in (0.5, 1e38, 0.25, 0.125, 2.0):
                scaled(scaler, weight, factor)
        found.append((weight.detach(), scaler.get_scale()))
    assert same(found[0][0], found[1][0]) and found[0][1] == found[1][1]  # all numbers are powers of two


def test_enable__scales_at_their_limits_are_torchs() -> None:
    """A scale that would be infinite stays; one that is too small becomes 0. Factors of two round nothing."""

    def updated(scale: float, tracker: int, found_inf: float) -> tuple[float, int]:
        tensors = torch.tensor(scale), torch.tensor(tracker, dtype=torch.int32), torch.tensor(found_inf)
        torch._amp_update_scale_(*tensors, 2.0, 0.5, 3)
        return tensors[0].item(), int(tensors[1])

    calls = list(itertools.product((2.0**-149, 1.0, 2.0**126, 2.0**127, 3e38, math.inf), (0, 1, 2, 3), (0.0, 1.0, 2.0)))
    expected = [updated(*call) for call in calls]
    with repdl.enabled():
        found = [updated(*call) for call in calls]
    assert found == expected
    assert updated(3e38, 2, 0.0) == (float(torch.tensor(3e38)), 0)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 2.5, 3, math.inf, -math.inf])
def test_enable__norms_of_every_order(order: float) -> None:
    """Whichever of torch's functions asks for it."""
    x, y = values(6, 5), values(3, 2)
    x[0, 1] = 0
    expected = [ops.vector_norm(t, order) for t in (x, y)]
    with repdl.enabled():
        assert all(map(same, torch._foreach_norm([x, y], order), expected))
        assert same(torch.linalg.vector_norm(x, order), expected[0])
        assert same(torch.norm(x, order), expected[0]) and same(x.norm(p=order), expected[0])
        assert same(torch.norm(x, order, dim=1), ops.vector_norm(x, order, 1))


def test_enable__transforms() -> None:
    x, w = values(4, 6), values(6)
    with repdl.enabled():
        grad = torch.func.grad(lambda w: (x @ w).tanh().sum())(w)
        each = torch.vmap(torch.func.grad(lambda w, row: (row * w).sum().tanh()), in_dims=(None, 0))(w, x)
    assert same(grad, torch.func.grad(lambda w: ops.sum(ops.tanh(ops.mv(x, w))))(w))
    assert same(each[1], torch.func.grad(lambda w: ops.tanh(ops.sum(ops.mul(x[1], w))))(w))


def test_enable__truncated_normal_numbers_by_erfinv() -> None:
    """As timm and versions of torch before 2.10 draw them."""
    low, high = -0.9544997, 0.9544997
    with repdl.enabled():
        torch.manual_seed(3)
        x = torch.empty(500).uniform_(low, high).erfinv_().mul_(0.02 * 2**0.5).add_(0.1).clamp_(0.06, 0.14)
        torch.manual_seed(3)
        drawn = torch.empty(500).uniform_(low, high)
    assert same(x, ops.clamp(ops.add(ops.mul(ops.erfinv(drawn), 0.02 * 2**0.5), 0.1), 0.06, 0.14))
    assert 0.015 < x.std() < 0.02 and x.min() >= 0.06 and x.max() <= 0.14
    with repdl.enabled():
        torch.manual_seed(3)
        y = torch.nn.init.trunc_normal_(torch.empty(500), std=0.02)
        torch.manual_seed(3)
        assert same(y, torch.nn.init.trunc_normal_(torch.empty(500), std=0.02)) and y.abs().max() > 0.03


def test_enable__degrees() -> None:
    x = values(40)
    for function, factor in ((torch.deg2rad, 0.017453292519943295), (torch.rad2deg, 57.29577951308232)):
        expected = function(x.double())
        with repdl.enabled():
            found, whole = function(x), function(torch.tensor([90]))
        assert same(found, ops.mul(x, factor)) and torch.allclose(found.double(), expected, rtol=2.0**-22)
        assert same(whole, ops.mul(torch.tensor([90.0]), factor))


def test_enable__cross_products_along_the_last_dimension() -> None:
    x, y = values(3, 5, 3), values(3, 5, 3).flip(0)
    with repdl.enabled():
        assert same(torch.linalg.cross(x, y), ops.cross(x, y, -1))
        assert same(torch.linalg.cross(x, y, dim=0), ops.cross(x, y, 0))
        assert not same(torch.linalg.cross(x, y), ops.cross(x, y))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_enable__interpolates_with_antialias(mode: str) -> None:
    x = values(2, 3, 9, 12)
    for given in ({"size": (5, 4)}, {"scale_factor": 0.4}, {"size": (5, 20), "align_corners": True}):
        a, b = (x.clone().requires_grad_() for _ in range(2))
        expected = ops.interpolate(a, mode=mode, antialias=True, **given)
        ops.sum(ops.square(expected)).backward()
        with repdl.enabled():
            found = F.interpolate(b, mode=mode, antialias=True, **given)
            found.square().sum().backward()
        assert same(found, expected) and a.grad is not None and same(a.grad, b.grad)


def test_enable__tables_with_max_norm() -> None:
    index = torch.tensor([[3, 1], [3, 0]])
    ours, theirs = values(5, 7), values(5, 7)
    expected = ops.embedding(index, ours, max_norm=1.5)
    with repdl.enabled():
        found = F.embedding(index, theirs, max_norm=1.5)
    assert same(found, expected) and same(ours, theirs) and not same(ours, values(5, 7))


def test_enable__functions_of_every_name_that_torch_has() -> None:
    """A function of RepDL with the name of an op of torch computes it, unless torch's moves data."""
    names = {n.partition("::")[2].partition(".")[0] for n in torch._C._dispatch_get_all_op_names() if n[:6] == "aten::"}
    public = {n for n, value in vars(ops).items() if callable(value) and n[0] != "_"}
    missing = {n for n in public if n in names and n not in functions()}
    moves = {n for n in missing if class_of(n) in (OpClass.MOVES, OpClass.EXACT)}
    composed = {"argsort", "expand", "broadcast_to", "qr", "repeat_interleave", "tensordot", "tile"}
    assert missing - moves <= composed


def test_enable__groups_of_rows_have_a_matrix_each() -> None:
    def step() -> list[torch.Tensor]:
        rows, matrices = values(9, 16).requires_grad_(), values(3, 16, 8).requires_grad_()
        output = torch.nn.functional.grouped_mm(rows, matrices, offs=torch.tensor([4, 4, 9], dtype=torch.int32))
        output.square().sum().backward()
        assert rows.grad is not None and matrices.grad is not None
        return [output.detach(), rows.grad, matrices.grad]

    rows, matrices = values(9, 16).requires_grad_(), values(3, 16, 8).requires_grad_()
    output = ops.grouped_mm(rows, matrices, offs=torch.tensor([4, 4, 9]))
    ops.sum(ops.square(output)).backward()
    with repdl.enabled():
        for got, expected in zip(step(), (output.detach(), rows.grad, matrices.grad)):
            assert expected is not None and same(got, expected)
