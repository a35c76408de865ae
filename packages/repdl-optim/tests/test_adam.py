"""Adam: bits of every option against the reference, and torch's behaviour around the step."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import repdl
from repdl.errors import DTypeError, RepDLError, ShapeError, UnsupportedError
from repdl.optim import Adam
from repdl.optim.power import power
from repdl.optim.testing import assert_same_state, parameters, set_grads, snapshot, train
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": w, "decoupled_weight_decay": d, "amsgrad": a, "maximize": x}
    for (w, d), a, x in product(((0.0, False), (0.01, False), (0.01, True)), (False, True), (False, True))
]
IGNORED: list[dict[str, Any]] = [{"foreach": False}, {"foreach": True}, {"fused": False}, {"fused": True}]
DECOUPLES = "decoupled_weight_decay" in signature(torch.optim.Adam).parameters
needs_decoupling = pytest.mark.skipif(
    not DECOUPLES, reason="the state dicts of this torch do not say whether weight decay is decoupled"
)
KEYS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.5), (0.95, 0.0)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_adam__bits_of_the_reference(options: dict[str, Any], betas: tuple[float, float]) -> None:
    params, oracle = parameters(), parameters()
    optimizer = Adam(params, lr=0.1, betas=betas, **options)
    lists = [[torch.zeros_like(p) for p in oracle] for _ in KEYS[: 3 if options["amsgrad"] else 2]]
    for step in range(1, 5):
        grads = set_grads(params, step)
        optimizer.step()
        with repdl.use_backend("reference"):
            repdl.ops.adam_step(
                oracle,
                grads,
                *lists,
                lr=0.1,
                beta1=betas[0],
                beta2=betas[1],
                eps=1e-8,
                bias_correction1=1 - power(betas[0], step),
                bias_correction2=1 - power(betas[1], step),
                **options,
            )
        assert_same_bits(params, oracle, f"step {step}")
        for key, tensors in zip(KEYS, lists):
            assert_same_bits([optimizer.state[p][key] for p in params], tensors, key)
        assert all(optimizer.state[p]["step"] == step for p in params)


def torchs(params: list[torch.Tensor], decoupled_weight_decay: bool, **options: Any) -> torch.optim.Optimizer:
    """torch's Adam; where it does not decouple weight decay, its AdamW, which does."""
    if DECOUPLES:
        options["decoupled_weight_decay"] = decoupled_weight_decay
    return (torch.optim.AdamW if decoupled_weight_decay and not DECOUPLES else torch.optim.Adam)(params, **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_adam__close_to_torch(options: dict[str, Any]) -> None:
    # A step moves an element by lr * m / d, |m / d| < 10 with these betas. m, v, d and the
    # quotient take fewer than 16 roundings of relative size 2**-24 each in either code, and
    # m may lose 4 bits to cancellation (gradients are multiples of 2**-23 and differ in sign),
    # which weight decay feeds back at 1 %. 10 steps.
    params, other = parameters(), parameters()
    train(Adam(params, lr=0.01, **options), params, range(10))
    train(torchs(other, lr=0.01, foreach=False, **options), other, range(10))
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=10 * 0.01 * 10 * 2 * 16 * 16 * 2.0**-24)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), min_size=1, max_size=5),
    st.floats(0, 1),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
)
def test_adam__any_shape_and_value(
    shapes: list[tuple[int, ...]],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    amsgrad: bool,
    decoupled: bool,
) -> None:
    results = []
    for backend in ("cpu", "reference") if "cpu" in repdl.backends() else ("reference",):
        params = parameters(shapes)
        optimizer = Adam(params, lr, (beta1, beta2), eps, decay, amsgrad, decoupled_weight_decay=decoupled)
        with repdl.use_backend(backend):
            train(optimizer, params, range(3))
        results.append(params)
    assert_same_bits(results[0], results[-1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@needs_decoupling
@pytest.mark.parametrize("source, target", [(Adam, torch.optim.Adam), (torch.optim.Adam, Adam)])
def test_adam__state_dict_to_and_from_torch(
    source: Callable[..., Any], target: Callable[..., Any], options: dict[str, Any]
) -> None:
    params, other = parameters(), parameters()
    first = source(params, lr=0.1, **options)
    train(first, params, range(3))
    saved = copy.deepcopy(first.state_dict())
    same = target(other, lr=0.1, **options)
    train(same, other, range(3))
    assert {k: v.dtype for k, v in same.state_dict()["state"][0].items()} == {
        k: v.dtype for k, v in saved["state"][0].items()
    }
    second = target(params, lr=0.5)
    second.load_state_dict(saved)
    assert_same_state(second.state_dict(), saved)
    if target is torch.optim.Adam:  # and back, while torch has not stepped
        third = Adam(params, lr=0.7)
        third.load_state_dict(copy.deepcopy(second.state_dict()))
        train(third, params, range(3, 6))
        whole = parameters()
        uninterrupted = Adam(whole, lr=0.1, **options)
        train(uninterrupted, whole, range(6))
        assert_same_bits(params, whole)
        assert_same_state(third.state_dict(), uninterrupted.state_dict())
    train(second, params, range(6, 7))
    assert second.state_dict()["state"][0]["step"] == 4


@needs_decoupling
def test_adam__state_dict_of_adamw() -> None:
    params, other = parameters(), parameters()
    theirs = torch.optim.AdamW(params, lr=0.1, weight_decay=0.5)
    train(theirs, params, range(2))
    with torch.no_grad():
        for a, b in zip(other, params):
            a.copy_(b)
    optimizer = Adam(other)
    optimizer.load_state_dict(copy.deepcopy(theirs.state_dict()))
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True
    train(optimizer, other, range(2, 3))
    train(theirs, params, range(2, 3))
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=0.1 * 10 * 32 * 2.0**-24)  # one step; see close_to_torch


@pytest.mark.parametrize("kind", [int, float, torch.tensor, lambda x: torch.tensor(x, dtype=torch.float64)])
@pytest.mark.parametrize("load", [False, True])
def test_adam__step_as_a_number(kind: Callable[[Any], Any], load: bool) -> None:
    params, other = parameters(), parameters()
    optimizer, expected = Adam(params, lr=0.1), Adam(other, lr=0.1)
    train(optimizer, params, range(2))
    train(expected, other, range(4))
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        state["step"] = kind(state["step"].item())
    if load:
        optimizer = Adam(params)
        optimizer.load_state_dict(saved)
    train(optimizer, params, range(2, 4))
    assert_same_bits(params, other)
    assert all(float(state["step"]) == 4 for state in optimizer.state.values())


@needs_decoupling
def test_adam__state_dict_before_the_first_step() -> None:
    params, other = parameters(), parameters()
    optimizer, theirs = Adam(params), torch.optim.Adam(other)
    assert_same_state(optimizer.state_dict(), theirs.state_dict())
    optimizer.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(optimizer.state_dict())
    train(optimizer, params, range(1))
    train(theirs, other, range(1))


def test_adam__loading_does_not_tie_the_steps_of_two_optimizers() -> None:
    params, other = parameters(), parameters()
    first = Adam(params)
    train(first, params, range(1))
    second = Adam(other)
    second.load_state_dict(first.state_dict())
    train(first, params, range(1, 2))
    assert [state["step"].item() for state in second.state.values()] == [1.0] * len(other)


def test_adam__state_without_max_exp_avg_sq() -> None:
    params = parameters()
    optimizer = Adam(params)
    train(optimizer, params, range(1))
    optimizer.param_groups[0]["amsgrad"] = True
    before = snapshot(optimizer, params)
    with pytest.raises(RepDLError, match=r"no max_exp_avg_sq.*amsgrad=True"):
        optimizer.step()
    assert_same_bits(params, before[0])
    assert_same_state(optimizer.state_dict(), before[1])
    optimizer.param_groups[0]["amsgrad"] = False
    optimizer.step()


def test_adam__amsgrad_switched_off_keeps_the_maximum() -> None:
    params = parameters()
    optimizer = Adam(params, amsgrad=True)
    train(optimizer, params, range(2))
    kept = copy.deepcopy(optimizer.state[params[0]]["max_exp_avg_sq"])
    optimizer.param_groups[0]["amsgrad"] = False
    train(optimizer, params, range(2, 3))
    assert_same_bits(optimizer.state[params[0]]["max_exp_avg_sq"], kept)


def test_adam__parameters_at_different_steps() -> None:
    params, other = parameters(), parameters()
    optimizer = Adam(params, lr=0.1)
    single = [Adam([p], lr=0.1) for p in other]
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
    assert [optimizer.state[p]["step"].item() for p in params] == [3, 2, 3, 2, 2]
    assert len({id(optimizer.state[p]["step"]) for p in params}) == len(params)


def test_adam__groups_with_their_own_options() -> None:
    params, other = parameters(), parameters()
    groups: list[dict[str, Any]] = [{"params": params[:2], "weight_decay": 0.5}, {"params": params[2:]}, {"params": []}]
    optimizer = Adam(groups, lr=0.1)
    parts = [Adam(other[:2], lr=0.1, weight_decay=0.5), Adam(other[2:], lr=0.1)]
    for step in range(3):
        set_grads(params, step)
        set_grads(other, step)
        optimizer.step()
        for part in parts:
            part.step()
    assert_same_bits(params, other)


def test_adam__nothing_to_do() -> None:
    params = parameters()
    groups: list[dict[str, Any]] = [{"params": []}, {"params": params}]
    optimizer = Adam(groups)
    assert optimizer.step() is None
    assert_same_bits(params, parameters())
    assert len(optimizer.state) == 0


@pytest.mark.parametrize("options", IGNORED, ids=str)
def test_adam__foreach_and_fused_have_no_effect(options: dict[str, Any]) -> None:
    params, other = parameters(), parameters()
    train(Adam(params, lr=0.1, **options), params, range(3))
    train(Adam(other, lr=0.1), other, range(3))
    assert_same_bits(params, other)


def test_adam__tensors_as_hyperparameters() -> None:
    params, other = parameters(), parameters()
    lr, beta1, beta2 = torch.tensor(0.1), torch.tensor(0.9), torch.tensor(0.999)
    train(Adam(params, lr=lr, betas=(beta1, beta2)), params, range(3))
    train(Adam(other, lr=lr.item(), betas=(beta1.item(), beta2.item())), other, range(3))
    assert_same_bits(params, other)


def test_adam__step_lr() -> None:
    # StepLR multiplies Python doubles, rounded the same on every machine.
    params, other = parameters(), parameters()
    optimizer = Adam(params, lr=0.3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    expected, lr = Adam(other, lr=0.3), 0.3
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
def test_adam__thread_counts(threads: int) -> None:
    shapes: list[tuple[int, ...]] = [(9001,), (3,), (100, 80), (0,), (257,)]
    params, other, before = parameters(shapes), parameters(shapes), repdl.get_num_threads()
    try:
        repdl.set_num_threads(1)
        train(Adam(params, amsgrad=True), params, range(2))
        repdl.set_num_threads(threads)
        train(Adam(other, amsgrad=True), other, range(2))
    finally:
        repdl.set_num_threads(before)
    assert_same_bits(params, other)


def test_adam__layouts() -> None:
    params = parameters([(2, 3, 4, 5), (6, 7)])
    other = [
        torch.nn.Parameter(params[0].detach().clone(memory_format=torch.channels_last)),
        torch.nn.Parameter(params[1].detach().t().contiguous().t()),
    ]
    train(Adam(params), params, range(3))
    optimizer = Adam(other)
    train(optimizer, other, range(3))
    assert_same_bits(params, other)
    assert optimizer.state[other[0]]["exp_avg"].stride() == other[0].stride()


@pytest.mark.parametrize("enabled", [False, True])
def test_adam__closure_and_grad_mode(enabled: bool) -> None:
    (weight,) = params = parameters([(4,)])
    optimizer = Adam(params, lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    with torch.set_grad_enabled(enabled):
        loss = optimizer.step(closure)
        assert torch.is_grad_enabled() is enabled
    assert_same_bits(loss, (uniform(0, 4) * uniform(0, 4)).sum())
    assert weight.requires_grad and not torch.equal(weight, uniform(0, 4))
    assert not any(tensor.requires_grad for tensor in optimizer.state[weight].values())


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "torch.save"])
def test_adam__copies_go_on_alike(way: str) -> None:
    params = parameters()
    optimizer = Adam(params, amsgrad=True)
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
    assert type(optimizer2) is Adam
    assert_same_bits(params2, params)
    assert_same_state(optimizer2.state_dict(), optimizer.state_dict())


def test_adam__hooks_and_isinstance() -> None:
    params, called = parameters(), []
    optimizer = Adam(params)
    assert isinstance(optimizer, torch.optim.Adam)
    optimizer.register_step_pre_hook(lambda *_: called.append("pre"))
    optimizer.register_step_post_hook(lambda *_: called.append("post"))
    train(optimizer, params, range(1))
    assert called == ["pre", "post"]


def test_adam__steps_stay_float32_under_another_default_dtype() -> None:
    before = torch.get_default_dtype()
    params = parameters()
    optimizer = Adam(params)
    try:
        torch.set_default_dtype(torch.float64)
        train(optimizer, params, range(2))
    finally:
        torch.set_default_dtype(before)
    assert all(state["step"].dtype is torch.float32 for state in optimizer.state.values())


@pytest.mark.parametrize(
    "options",
    [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"weight_decay": -1.0}],
    ids=str,
)
def test_adam__refuses_what_torch_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as theirs:
        torch.optim.Adam(parameters(), **options)
    with pytest.raises(ValueError) as ours:
        Adam(parameters(), **options)
    assert str(ours.value) == str(theirs.value)


def test_adam__refuses_shared_parameters() -> None:
    params = parameters()
    with pytest.raises(ValueError, match="more than one parameter group"):
        Adam([{"params": params[:2]}, {"params": params[1:]}])


def test_adam__refuses_at_construction() -> None:
    with pytest.raises(UnsupportedError, match="Adam: differentiable=True"):
        Adam(parameters(), differentiable=True)
    with pytest.raises(UnsupportedError, match="Adam: capturable=True"):
        Adam(parameters(), capturable=True)
    for dtype in (torch.bfloat16, torch.float16, torch.complex64):
        with pytest.raises(DTypeError, match=r"Adam: params\[0\].dtype is"):
            Adam([torch.nn.Parameter(torch.ones(2, dtype=dtype))])


def _sparse(params: list[torch.nn.Parameter]) -> None:
    params[3].grad = torch.tensor([0.0, 1.0]).to_sparse()


def _half(params: list[torch.nn.Parameter]) -> None:
    params[3].data = params[3].data.half()
    params[3].grad = torch.ones(2, dtype=torch.float16)


def _expanded(params: list[torch.nn.Parameter]) -> None:
    params[3].data = torch.zeros(1).expand(2)


def _overlapping(params: list[torch.nn.Parameter]) -> None:
    params[3].data = params[0].data[:2]


@pytest.mark.parametrize(
    "spoil, error",
    [(_sparse, UnsupportedError), (_half, DTypeError), (_expanded, ShapeError), (_overlapping, ShapeError)],
)
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("split", [1, 3, 4])
@pytest.mark.parametrize("steps", [0, 1])
def test_adam__error_changes_nothing(
    spoil: Callable[..., None], error: type[Exception], amsgrad: bool, split: int, steps: int
) -> None:
    params = parameters([(5,), (4,), (3,), (2,)])
    optimizer = Adam([{"params": part} for part in (params[:split], params[split:])], amsgrad=amsgrad)
    train(optimizer, params, range(steps))
    set_grads(params, 7)
    spoil(params)
    before = snapshot(optimizer, params)
    with pytest.raises(error):
        optimizer.step()
    assert_same_bits([p.detach() for p in params], before[0])
    assert_same_state(optimizer.state_dict(), before[1])


@pytest.mark.parametrize("option", ["differentiable", "capturable"])
def test_adam__loaded_option_outside_the_contract(option: str) -> None:
    params = parameters()
    optimizer = Adam(params)
    saved = optimizer.state_dict()
    saved["param_groups"][0][option] = True
    optimizer.load_state_dict(saved)
    set_grads(params, 0)
    with pytest.raises(UnsupportedError, match=f"{option}=True"):
        optimizer.step()
    assert_same_bits(params, parameters())
