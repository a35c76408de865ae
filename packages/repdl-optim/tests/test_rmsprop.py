"""RMSprop: bits of every option against the reference, and torch's behaviour around the step."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import repdl
from repdl.errors import DTypeError, RepDLError, ShapeError, UnsupportedError
from repdl.optim import RMSprop
from repdl.optim.testing import assert_same_state, parameters, set_grads, snapshot, train
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": w, "momentum": m, "centered": c, "maximize": x}
    for w, m, c, x in product((0.0, 0.01), (0.0, 0.9), (False, True), (False, True))
]


def test_rmsprop__signature_defaults_and_state_are_torchs() -> None:
    theirs = inspect.signature(torch.optim.RMSprop).parameters
    mine = inspect.signature(RMSprop).parameters
    for a, b in zip(mine.values(), theirs.values(), strict=True):
        assert (a.name, a.default, a.kind) == (b.name, b.default, b.kind)
    optimizer = RMSprop(parameters())
    assert isinstance(optimizer, torch.optim.RMSprop)
    assert optimizer.defaults == torch.optim.RMSprop(parameters()).defaults
    assert_same_state(optimizer.state_dict(), torch.optim.RMSprop(parameters()).state_dict())


def test_rmsprop__bits_of_the_reference() -> None:
    for options in OPTIONS:
        params, oracle = parameters(), parameters()
        optimizer = RMSprop(params, lr=0.1, alpha=0.9, **options)
        state = {"square_avg": True, "grad_avg": options["centered"], "momentum_buffer": options["momentum"]}
        lists = {key: [torch.zeros_like(p) for p in oracle if there] for key, there in state.items()}
        for step in range(4):
            grads = set_grads(params, step)
            optimizer.step()
            with repdl.use_backend("reference"):
                repdl.ops.rmsprop_step(oracle, grads, *lists.values(), lr=0.1, alpha=0.9, eps=1e-8, **options)
            assert_same_bits(params, oracle, f"{options}, step {step}")
            for key, tensors in lists.items():
                assert_same_bits([optimizer.state[p][key] for p in params if tensors], tensors, f"{options}, {key}")
            assert all(optimizer.state[p]["step"] == step + 1 for p in params)


def test_rmsprop__close_to_torch() -> None:
    # Gradients are multiples of 2**-23 below 1 and eps is large: the root is at least 1/2. A step then moves an
    # element by lr * q with |q| < 2, made of at most 12 roundings in either code, of which the difference v - a * a
    # cancels 3 bits; momentum 0.5 adds up to 2 of them. 10 steps.
    for options in OPTIONS:
        options = {**options, "momentum": options["momentum"] and 0.5, "lr": 0.01, "eps": 0.5}
        params, other = parameters(), parameters()
        train(RMSprop(params, **options), params, range(10))
        train(torch.optim.RMSprop(other, foreach=False, **options), other, range(10))
        for a, b in zip(params, other):
            assert torch.allclose(a, b, rtol=0, atol=10 * (0.01 * 2 * 2 * 2 * 12 * 8 + 2 * 4) * 2.0**-24), options


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), min_size=1, max_size=5),
    st.tuples(*[st.floats(0, 1)] * 5),
    st.booleans(),
)
def test_rmsprop__any_shape_and_value(
    shapes: list[tuple[int, ...]], numbers: tuple[float, ...], centered: bool
) -> None:
    results = []
    for backend in ("cpu", "reference") if "cpu" in repdl.backends() else ("reference",):
        params = parameters(shapes)
        with repdl.use_backend(backend):
            train(RMSprop(params, *numbers, centered), params, range(3))
        results.append(params)
    assert_same_bits(results[0], results[-1])


@pytest.mark.parametrize("source, target", [(RMSprop, torch.optim.RMSprop), (torch.optim.RMSprop, RMSprop)])
def test_rmsprop__state_dict_to_and_from_torch(source: Callable[..., Any], target: Callable[..., Any]) -> None:
    for options in OPTIONS:
        params, other = parameters(), parameters()
        first = source(params, lr=0.1, **options)
        train(first, params, range(3))
        saved = copy.deepcopy(first.state_dict())
        same = target(other, lr=0.1, **options)
        train(same, other, range(3))
        for mine, theirs in zip(same.state_dict()["state"].values(), saved["state"].values()):
            assert {k: (v.dtype, v.shape) for k, v in mine.items()} == {
                k: (v.dtype, v.shape) for k, v in theirs.items()
            }
        second = target(params, lr=0.5)
        second.load_state_dict(saved)
        assert_same_state(second.state_dict(), saved)
        if target is torch.optim.RMSprop:  # and back, while torch has not stepped
            third = RMSprop(params, lr=0.7)
            third.load_state_dict(copy.deepcopy(second.state_dict()))
            train(third, params, range(3, 6))
            whole = parameters()
            uninterrupted = RMSprop(whole, lr=0.1, **options)
            train(uninterrupted, whole, range(6))
            assert_same_bits(params, whole, str(options))
            assert_same_state(third.state_dict(), uninterrupted.state_dict())
        train(second, params, range(6, 7))


def test_rmsprop__step_as_a_number() -> None:
    for kind in (int, float, torch.tensor, lambda x: torch.tensor(x, dtype=torch.float64)):
        params, other = parameters(), parameters()
        optimizer, expected = RMSprop(params, lr=0.1), RMSprop(other, lr=0.1)
        train(optimizer, params, range(2))
        train(expected, other, range(4))
        saved = optimizer.state_dict()
        for state in saved["state"].values():
            state["step"] = kind(state["step"].item())
        optimizer = RMSprop(params)
        optimizer.load_state_dict(saved)
        train(optimizer, params, range(2, 4))
        assert_same_bits(params, other)
        assert all(float(state["step"]) == 4 for state in optimizer.state.values())


def test_rmsprop__options_switched_on_without_their_state() -> None:
    for option, value, key in (("centered", True, "grad_avg"), ("momentum", 0.9, "momentum_buffer")):
        params = parameters()
        optimizer = RMSprop(params)
        train(optimizer, params, range(1))
        optimizer.param_groups[0][option] = value
        before = snapshot(optimizer, params)
        with pytest.raises(RepDLError, match=rf"RMSprop: .* has no {key}, only .*{option}={value}"):
            optimizer.step()
        assert_same_bits(params, before[0])
        assert_same_state(optimizer.state_dict(), before[1])


def test_rmsprop__options_switched_off_keep_their_state() -> None:
    params = parameters()
    optimizer = RMSprop(params, momentum=0.9, centered=True)
    train(optimizer, params, range(2))
    kept = copy.deepcopy(optimizer.state[params[0]])
    optimizer.param_groups[0].update(momentum=0.0, centered=False)
    train(optimizer, params, range(2, 3))
    for key in ("grad_avg", "momentum_buffer"):
        assert_same_bits(optimizer.state[params[0]][key], kept[key])


def test_rmsprop__parameters_and_groups_by_themselves() -> None:
    """Parameters without a gradient stay behind; each group has its options."""
    params, other = parameters(), parameters()
    groups: list[dict[str, Any]] = [{"params": params[:2], "alpha": 0.5}, {"params": params[2:]}, {"params": []}]
    optimizer = RMSprop(groups, lr=0.1, momentum=0.9)
    single = [RMSprop([p], lr=0.1, momentum=0.9, alpha=0.5 if i < 2 else 0.99) for i, p in enumerate(other)]
    assert optimizer.step() is None and len(optimizer.state) == 0
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


def test_rmsprop__foreach_has_no_effect_and_numbers_may_be_tensors() -> None:
    expected = parameters()
    train(RMSprop(expected, lr=0.1, momentum=0.9), expected, range(3))
    for options in ({"foreach": False}, {"foreach": True}, {"lr": torch.tensor(0.1, dtype=torch.float64)}):
        params = parameters()
        train(RMSprop(params, **{"lr": 0.1, "momentum": 0.9, **options}), params, range(3))
        assert_same_bits(params, expected, str(options))


def test_rmsprop__closure_scheduler_and_hooks() -> None:
    (weight,), called = params, _ = parameters([(4,)]), []
    optimizer = RMSprop(params, lr=0.3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    optimizer.register_step_pre_hook(lambda *_: called.append("pre"))
    optimizer.register_step_post_hook(lambda *_: called.append("post"))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert_same_bits(optimizer.step(closure), (uniform(0, 4) * uniform(0, 4)).sum())
    assert called == ["pre", "post"]
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.3 * 0.1
    assert weight.requires_grad and not any(t.requires_grad for t in optimizer.state[weight].values())


def test_rmsprop__layouts_and_threads() -> None:
    shapes: list[tuple[int, ...]] = [(9001,), (2, 3, 4, 5), (100, 80), (0,), (257,)]
    expected, before = parameters(shapes), repdl.get_num_threads()
    options: dict[str, Any] = {"momentum": 0.9, "centered": True}
    train(RMSprop(expected, **options), expected, range(2))
    try:
        for threads in (1, 2, 7):
            repdl.set_num_threads(threads)
            params = parameters(shapes)
            params[1].data = params[1].data.contiguous(memory_format=torch.channels_last)
            params[2].data = params[2].data.t().contiguous().t()
            optimizer = RMSprop(params, **options)
            train(optimizer, params, range(2))
            assert_same_bits(params, expected)
            assert optimizer.state[params[1]]["square_avg"].stride() == params[1].stride()
    finally:
        repdl.set_num_threads(before)


def test_rmsprop__copies_go_on_alike() -> None:
    for way in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        params = parameters()
        optimizer = RMSprop(params, momentum=0.9, centered=True)
        train(optimizer, params, range(2))
        params2, optimizer2 = way((params, optimizer))
        train(optimizer, params, range(2, 4))
        train(optimizer2, params2, range(2, 4))
        assert type(optimizer2) is RMSprop
        assert_same_bits(params2, params)
        assert_same_state(optimizer2.state_dict(), optimizer.state_dict())


def test_rmsprop__refuses_what_torch_refuses() -> None:
    for option in ("lr", "alpha", "eps", "weight_decay", "momentum"):
        with pytest.raises(ValueError) as theirs:
            torch.optim.RMSprop(parameters(), **{option: -0.5})
        with pytest.raises(ValueError) as ours:
            RMSprop(parameters(), **{option: -0.5})
        assert str(ours.value) == str(theirs.value)


def test_rmsprop__refuses_at_construction_and_when_loaded() -> None:
    for option in ("differentiable", "capturable"):
        with pytest.raises(UnsupportedError, match=f"RMSprop: {option}=True"):
            RMSprop(parameters(), **{option: True})
        params = parameters()
        optimizer = RMSprop(params)
        saved = optimizer.state_dict()
        saved["param_groups"][0][option] = True
        optimizer.load_state_dict(saved)
        set_grads(params, 0)
        with pytest.raises(UnsupportedError, match=f"{option}=True"):
            optimizer.step()
        assert_same_bits(params, parameters())
    for dtype in (torch.bfloat16, torch.float16, torch.complex64):
        with pytest.raises(DTypeError, match=r"RMSprop: params\[0\].dtype is"):
            RMSprop([torch.nn.Parameter(torch.ones(2, dtype=dtype))])


def test_rmsprop__error_changes_nothing() -> None:
    def sparse(params: list[torch.nn.Parameter]) -> None:
        params[3].grad = torch.tensor([0.0, 1.0]).to_sparse()

    def expanded(params: list[torch.nn.Parameter]) -> None:
        params[3].data = torch.zeros(1).expand(2)

    def overlapping(params: list[torch.nn.Parameter]) -> None:
        params[3].data = params[0].data[:2]

    spoils = ((sparse, UnsupportedError), (expanded, ShapeError), (overlapping, ShapeError))
    for (spoil, error), split, steps in product(spoils, (1, 4), (0, 1)):
        params = parameters([(5,), (4,), (3,), (2,)])
        optimizer = RMSprop([{"params": part} for part in (params[:split], params[split:])], momentum=0.9)
        train(optimizer, params, range(steps))
        set_grads(params, 7)
        spoil(params)
        before = snapshot(optimizer, params)
        with pytest.raises(error):
            optimizer.step()
        assert_same_bits([p.detach() for p in params], before[0])
        assert_same_state(optimizer.state_dict(), before[1])


def test_rmsprop__float64_beside_float32() -> None:
    def trained(*dtypes: torch.dtype) -> list[torch.Tensor]:
        params = [torch.nn.Parameter(uniform(s, 4).to(d)) for s, d in enumerate(dtypes)]
        optimizer = RMSprop(params, lr=0.1)
        for seed, p in enumerate(params):
            p.grad = uniform(5 + seed, 4).to(p.dtype)
        optimizer.step()
        return [p.detach() for p in params]

    single, double = torch.float32, torch.float64
    assert_same_bits(trained(single, double), [trained(single, single)[0], trained(double, double)[1]])
