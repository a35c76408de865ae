"""SGD: bits of every option against the reference, and torch's behaviour around the step."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import repdl
from repdl.errors import DTypeError, ShapeError, UnsupportedError
from repdl.optim import SGD
from repdl.optim.testing import assert_same_state, parameters, set_grads, snapshot, train
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": w, "momentum": m, "dampening": d, "nesterov": n, "maximize": x}
    for w, (m, d, n), x in product(
        (0.0, 0.01),
        ((0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.5, False), (0.9, 0.0, True)),
        (False, True),
    )
]
IGNORED: list[dict[str, Any]] = [{"foreach": False}, {"foreach": True}, {"fused": False}, {"fused": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sgd__bits_of_the_reference(options: dict[str, Any]) -> None:
    params, oracle, buffers = parameters(), parameters(), None
    optimizer = SGD(params, lr=0.1, **options)
    for step in range(4):
        grads = set_grads(params, step)
        optimizer.step()
        first = buffers is None
        if options["momentum"] and buffers is None:
            buffers = [torch.full_like(p, float("nan")) for p in oracle]
        with repdl.use_backend("reference"):
            repdl.ops.sgd_step(oracle, grads, buffers or [], lr=0.1, first=first, **options)
        assert_same_bits(params, oracle, f"step {step}")
        if buffers is not None:
            assert_same_bits([optimizer.state[p]["momentum_buffer"] for p in params], buffers, "buffers")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sgd__close_to_torch(options: dict[str, Any]) -> None:
    # Both round each of at most 5 operations a step, of values that stay below 16, by half
    # an ulp, 2**-21 there; 10 steps, and momentum 0.9 adds up to 10 of the errors.
    params, other = parameters(), parameters()
    train(SGD(params, lr=0.1, **options), params, range(10))
    train(torch.optim.SGD(other, lr=0.1, foreach=False, **options), other, range(10))
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=5 * 10 * 10 * 0.1 * 2.0**-21)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), min_size=1, max_size=5),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_sgd__any_shape_and_value(
    shapes: list[tuple[int, ...]], lr: float, momentum: float, dampening: float, weight_decay: float
) -> None:
    results = []
    for backend in ("cpu", "reference") if "cpu" in repdl.backends() else ("reference",):
        params = parameters(shapes)
        with repdl.use_backend(backend):
            train(SGD(params, lr, momentum, dampening, weight_decay), params, range(3))
        results.append(params)
    assert_same_bits(results[0], results[-1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("source, target", [(SGD, torch.optim.SGD), (torch.optim.SGD, SGD)])
def test_sgd__state_dict_to_and_from_torch(
    source: Callable[..., Any], target: Callable[..., Any], options: dict[str, Any]
) -> None:
    params = parameters()
    first = source(params, lr=0.1, **options)
    train(first, params, range(3))
    saved = copy.deepcopy(first.state_dict())
    second = target(params, lr=0.5)
    second.load_state_dict(saved)
    assert_same_state(second.state_dict(), saved)
    if target is torch.optim.SGD:  # and back, while torch has not stepped
        third = SGD(params, lr=0.7)
        third.load_state_dict(copy.deepcopy(second.state_dict()))
        train(third, params, range(3, 6))
        whole = parameters()
        uninterrupted = SGD(whole, lr=0.1, **options)
        train(uninterrupted, whole, range(6))
        assert_same_bits(params, whole)
        assert_same_state(third.state_dict(), uninterrupted.state_dict())
    train(second, params, range(6, 7))


@pytest.mark.parametrize("target", [SGD, torch.optim.SGD])
def test_sgd__state_dict_before_the_first_step(target: Callable[..., Any]) -> None:
    params, other = parameters(), parameters()
    optimizer = SGD(params, lr=0.1, momentum=0.9)
    assert_same_state(optimizer.state_dict(), torch.optim.SGD(other, lr=0.1, momentum=0.9).state_dict())
    second = target(other, lr=0.3)
    second.load_state_dict(optimizer.state_dict())
    train(second, other, range(2))


def test_sgd__state_with_buffer_none() -> None:
    params, other = parameters(), parameters()
    optimizer, expected = SGD(params, lr=0.1, momentum=0.9), SGD(other, lr=0.1, momentum=0.9)
    saved = optimizer.state_dict()
    saved["state"] = {i: {"momentum_buffer": None} for i in range(len(params))}
    optimizer.load_state_dict(saved)
    train(optimizer, params, range(3))
    train(expected, other, range(3))
    assert_same_bits(params, other)


def test_sgd__parameters_at_different_stages() -> None:
    params, other = parameters(), parameters()
    optimizer = SGD(params, lr=0.1, momentum=0.9, dampening=0.5)
    single = [SGD([p], lr=0.1, momentum=0.9, dampening=0.5) for p in other]
    for step, present in enumerate([(0, 3), (0, 1, 2), (2, 4), (), (0, 1, 2, 3, 4)]):
        for group in (params, other):
            set_grads(group, step)
            for i, param in enumerate(group):
                if i not in present:
                    param.grad = None
        optimizer.step()
        for one in single:
            one.step()
        assert_same_bits(params, other, f"step {step}")
    assert set(optimizer.state) == set(params)


def test_sgd__momentum_switched_on_and_off() -> None:
    params, other = parameters(), parameters()
    optimizer, theirs = SGD(params, lr=0.1), torch.optim.SGD(other, lr=0.1)
    for step, momentum in enumerate([0.0, 0.9, 0.0, 0.9]):
        for group in (params, other):
            set_grads(group, step)
        optimizer.param_groups[0]["momentum"] = theirs.param_groups[0]["momentum"] = momentum
        optimizer.step()
        theirs.step()
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=4 * 5 * 2.0**-22)  # 4 steps of 5 roundings, below 8


def test_sgd__groups_with_their_own_options() -> None:
    params, other = parameters(), parameters()
    groups: list[dict[str, Any]] = [{"params": params[:2], "lr": 0.5}, {"params": params[2:]}]
    optimizer = SGD(groups, lr=0.1, momentum=0.9)
    parts = [SGD(other[:2], lr=0.5, momentum=0.9), SGD(other[2:], lr=0.1, momentum=0.9)]
    train(optimizer, params, range(3))
    for part, of in zip(parts, (range(2), range(2, 5))):
        for step in range(3):
            for i in of:
                other[i].grad = uniform(1000 * (step + 1) + i, *other[i].shape)
            part.step()
    assert_same_bits(params, other)


def test_sgd__nothing_to_do() -> None:
    params = parameters()
    groups: list[dict[str, Any]] = [{"params": []}, {"params": params}]
    optimizer = SGD(groups, lr=0.1, momentum=0.9)
    before = snapshot(optimizer, params)
    assert optimizer.step() is None
    assert_same_bits(params, before[0])
    assert len(optimizer.state) == 0


@pytest.mark.parametrize("options", IGNORED, ids=str)
def test_sgd__foreach_and_fused_have_no_effect(options: dict[str, Any]) -> None:
    params, other = parameters(), parameters()
    train(SGD(params, lr=0.1, momentum=0.9, **options), params, range(3))
    train(SGD(other, lr=0.1, momentum=0.9), other, range(3))
    assert_same_bits(params, other)


def test_sgd__fused_leaves_unscaling_to_the_scaler() -> None:
    params, other = parameters([(3,)]), parameters([(3,)])
    for group, options in ((params, {"fused": True}), (other, {})):
        optimizer = SGD(group, lr=0.1, **options)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale((group[0] * group[0]).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert_same_bits(params, other)
    assert not torch.equal(params[0], uniform(0, 3))


def test_sgd__learning_rate_as_a_tensor() -> None:
    params, other = parameters(), parameters()
    lr = torch.tensor(0.1)
    train(SGD(params, lr=lr), params, range(3))
    train(SGD(other, lr=lr.item()), other, range(3))
    assert_same_bits(params, other)
    with pytest.raises(ValueError, match="1-element"):
        SGD(params, lr=torch.tensor([0.1, 0.2]))


def test_sgd__step_lr() -> None:
    # StepLR multiplies Python doubles, rounded the same on every machine.
    params, other = parameters(), parameters()
    optimizer = SGD(params, lr=0.3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    expected, lr = SGD(other, lr=0.3, momentum=0.9), 0.3
    for step in range(6):
        set_grads(params, step)
        set_grads(other, step)
        optimizer.step()
        scheduler.step()
        expected.param_groups[0]["lr"] = lr
        expected.step()
        if step % 2:
            lr = lr * 0.1
        assert scheduler.get_last_lr() == [lr]
    assert_same_bits(params, other)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_sgd__thread_counts(threads: int) -> None:
    shapes: list[tuple[int, ...]] = [(9001,), (3,), (100, 80), (0,), (257,)]
    params, other, before = parameters(shapes), parameters(shapes), repdl.get_num_threads()
    try:
        repdl.set_num_threads(1)
        train(SGD(params, lr=0.1, momentum=0.9), params, range(2))
        repdl.set_num_threads(threads)
        train(SGD(other, lr=0.1, momentum=0.9), other, range(2))
    finally:
        repdl.set_num_threads(before)
    assert_same_bits(params, other)


def test_sgd__layouts() -> None:
    params = parameters([(2, 3, 4, 5), (6, 7)])
    other = [
        torch.nn.Parameter(params[0].detach().clone(memory_format=torch.channels_last)),
        torch.nn.Parameter(params[1].detach().t().contiguous().t()),
    ]
    train(SGD(params, lr=0.1, momentum=0.9), params, range(3))
    train(SGD(other, lr=0.1, momentum=0.9), other, range(3))
    assert_same_bits(params, other)
    assert other[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("enabled", [False, True])
def test_sgd__closure_and_grad_mode(enabled: bool) -> None:
    (weight,) = params = parameters([(4,)])
    optimizer = SGD(params, lr=0.1)

    def closure() -> torch.Tensor:
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    with torch.set_grad_enabled(enabled):
        loss = optimizer.step(closure)
        assert torch.is_grad_enabled() is enabled
    assert_same_bits(loss, (uniform(0, 4) * uniform(0, 4)).sum())
    assert weight.requires_grad and weight.grad_fn is None
    assert not torch.equal(weight, uniform(0, 4))


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_sgd__gradient_with_a_graph() -> None:
    (weight,) = params = parameters([(4,)])
    (weight * weight * weight).sum().backward(create_graph=True)
    optimizer = SGD(params, lr=0.1, momentum=0.9)
    optimizer.step()
    assert not optimizer.state[weight]["momentum_buffer"].requires_grad
    weight.grad = None


def test_sgd__backward_notices_the_step() -> None:
    (weight,) = params = parameters([(4,)])
    loss = (weight * weight).sum()
    weight.grad = uniform(3, 4)
    SGD(params, lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "torch.save"])
def test_sgd__copies_go_on_alike(way: str) -> None:
    params = parameters()
    optimizer = SGD(params, lr=0.1, momentum=0.9)
    train(optimizer, params, range(2))
    if way == "torch.save":
        file = io.BytesIO()
        torch.save((params, optimizer), file)
        file.seek(0)
        params2, optimizer2 = torch.load(file, weights_only=False)
    elif way == "pickle":
        params2, optimizer2 = pickle.loads(pickle.dumps((params, optimizer)))
    else:
        params2, optimizer2 = copy.deepcopy((params, optimizer))
    train(optimizer, params, range(2, 4))
    train(optimizer2, params2, range(2, 4))
    assert type(optimizer2) is SGD
    assert_same_bits(params2, params)
    assert_same_state(optimizer2.state_dict(), optimizer.state_dict())


def test_sgd__hooks_and_isinstance() -> None:
    params, called = parameters(), []
    optimizer = SGD(params, lr=0.1)
    assert isinstance(optimizer, torch.optim.SGD)
    optimizer.register_step_pre_hook(lambda *_: called.append("pre"))
    optimizer.register_step_post_hook(lambda *_: called.append("post"))
    train(optimizer, params, range(1))
    assert called == ["pre", "post"]
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": -0.1},
        {"momentum": -0.9},
        {"weight_decay": -1.0},
        {"nesterov": True},
        {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
    ],
    ids=str,
)
def test_sgd__refuses_what_torch_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as theirs:
        torch.optim.SGD(parameters(), **options)
    with pytest.raises(ValueError) as ours:
        SGD(parameters(), **options)
    assert str(ours.value) == str(theirs.value)


def test_sgd__refuses_shared_parameters_and_no_parameters() -> None:
    params = parameters()
    with pytest.raises(ValueError, match="more than one parameter group"):
        SGD([{"params": params[:2]}, {"params": params[1:]}], lr=0.1)
    with pytest.raises(ValueError, match="empty parameter list"):
        SGD([], lr=0.1)


def test_sgd__refuses_at_construction() -> None:
    with pytest.raises(UnsupportedError, match="SGD: differentiable=True"):
        SGD(parameters(), differentiable=True)
    for dtype in (torch.float16, torch.bfloat16, torch.complex64):
        with pytest.raises(DTypeError, match=r"SGD: params\[1\].dtype is"):
            SGD([*parameters([(2,)]), torch.nn.Parameter(torch.ones(2, dtype=dtype))])
    frozen = torch.nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)
    optimizer = SGD([frozen])  # has no gradient, ever
    optimizer.step()
    with pytest.raises(DTypeError):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.float16))]})
    assert len(optimizer.param_groups) == 1


def _sparse(params: list[torch.nn.Parameter]) -> None:
    params[3].grad = torch.tensor([0.0, 1.0]).to_sparse()


def _half(params: list[torch.nn.Parameter]) -> None:
    params[3].data = params[3].data.half()
    params[3].grad = torch.ones(2, dtype=torch.float16)


def _expanded(params: list[torch.nn.Parameter]) -> None:
    params[3].data = torch.zeros(1).expand(2)


def _overlapping(params: list[torch.nn.Parameter]) -> None:
    params[3].data = params[0].data[:2]


SPOIL: list[tuple[Callable[..., None], type[Exception]]] = [
    (_sparse, UnsupportedError),
    (_half, DTypeError),
    (_expanded, ShapeError),
    (_overlapping, ShapeError),
]


@pytest.mark.parametrize("spoil, error", SPOIL)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("split", [1, 3, 4])
@pytest.mark.parametrize("steps", [0, 1])
def test_sgd__error_changes_nothing(
    spoil: Callable[..., None], error: type[Exception], momentum: float, split: int, steps: int
) -> None:
    params = parameters([(5,), (4,), (3,), (2,)])
    groups = [{"params": part} for part in (params[:split], params[split:])]
    optimizer = SGD(groups, lr=0.1, momentum=momentum)
    train(optimizer, params, range(steps))
    set_grads(params, 7)
    spoil(params)
    before = snapshot(optimizer, params)
    with pytest.raises(error):
        optimizer.step()
    assert_same_bits([p.detach() for p in params], before[0])
    assert_same_state(optimizer.state_dict(), before[1])


def test_sgd__loaded_option_outside_the_contract() -> None:
    params, other = parameters(), parameters()
    optimizer = SGD(params, lr=0.1)
    optimizer.load_state_dict(torch.optim.SGD(other, lr=0.1, differentiable=True).state_dict())
    set_grads(params, 0)
    with pytest.raises(UnsupportedError, match="differentiable=True"):
        optimizer.step()
    assert_same_bits(params, other)
