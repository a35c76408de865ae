"""What every optimizer does: torch's behaviour around the step, and no bits but those of the parameters."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
import torch
from optimizer_kinds import KINDS, Kind, Options

import repdl
from repdl import optim
from repdl.errors import DTypeError, RepDLError, ShapeError, UnsupportedError
from repdl.optim.testing import assert_same_state, parameters, set_grads, snapshot, train
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

Params = list[torch.nn.Parameter]


BOTH = (False, True)
every = pytest.mark.parametrize("kind", KINDS, ids=str)


def test_optimizers__are_all_there() -> None:
    """torch's; those that are not one op have tests of their own."""
    theirs = {name for name, value in vars(torch.optim).items() if isinstance(value, type)} - {"Optimizer"}
    assert set(optim.__all__) == theirs | {"lr_scheduler", "swa_utils"}
    assert theirs - {kind.name for kind in KINDS} <= {"Adafactor", "LBFGS", "Muon", "SparseAdam"}


@every
def test_optimizer__signature_defaults_and_state_are_torchs(kind: Kind) -> None:
    optimizer, theirs = kind.ours(parameters()), kind.theirs(parameters())
    assert isinstance(optimizer, kind.theirs)  # type: ignore[arg-type]
    if not kind.same_groups:
        return
    for a, b in zip(*(inspect.signature(f).parameters.values() for f in (kind.ours, kind.theirs)), strict=True):
        assert (a.name, a.default, a.kind) == (b.name, b.default, b.kind)
    assert optimizer.defaults == theirs.defaults
    assert_same_state(optimizer.state_dict(), theirs.state_dict())


@every
def test_optimizer__parameters_step_as_each_with_an_optimizer_of_its_own(kind: Kind) -> None:
    """Some have no gradient now and then, and options change between: what a parameter's step needs is its own."""
    together = kind.ours(parameters(), **kind.full)
    params = [p for group in together.param_groups for p in group["params"]]
    alone = parameters()
    apart = [kind.ours([p], **kind.full) for p in alone]
    for step in range(12):
        grads = set_grads(alone, step)
        for i, (one, other) in enumerate(zip(params, alone)):
            one.grad = other.grad = grads[i] if (step + i) % 3 or step > 8 else None
        for optimizer in (together, *apart):
            optimizer.param_groups[0]["lr"] = 0.5 / (step + 1)
            optimizer.step()
        for one, other in zip(params, alone):
            assert_same_bits(one.detach(), other.detach(), f"after step {step}")


@every
def test_optimizer__several_in_threads(kind: Kind) -> None:
    """Each thread has an optimizer of its own, of more parameters than a call holds in place, whose steps repeat."""

    def trained(seed: int) -> list[torch.Tensor]:
        params = [torch.nn.Parameter(uniform(seed + i, 3000)) for i in range(70)]
        optimizer = kind.ours(params, **kind.full)
        for step in range(12):
            for i, param in enumerate(params):
                param.grad = uniform(seed + step + i, 3000)
            optimizer.step()
        return [param.detach() for param in params]

    expected = [trained(seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        for found in (threads.map(trained, (1, 2)), threads.map(trained, (1, 2))):
            for params, right in zip(found, expected):
                assert_same_bits(params, right, str(kind))


@every
def test_optimizer__state_dict_to_and_from_torch(kind: Kind) -> None:
    if not kind.same_groups:
        pytest.skip("the state dicts of this torch do not say whether weight decay is decoupled")
    for options, (source, target) in product(kind.options, ((kind.ours, kind.theirs), (kind.theirs, kind.ours))):
        params, other = parameters(), parameters()
        first = source(params, **options)
        train(first, params, range(3))
        saved = copy.deepcopy(first.state_dict())
        same = target(other, **options)
        train(same, other, range(3))
        assert [_kinds(state) for state in same.state_dict()["state"].values()] == [
            _kinds(state) for state in saved["state"].values()
        ], options
        second = target(params, lr=0.5)
        second.load_state_dict(saved)
        assert_same_state(second.state_dict(), saved)
        if target is kind.theirs:  # and back, while torch has not stepped
            third = kind.ours(params, lr=0.7)
            third.load_state_dict(copy.deepcopy(second.state_dict()))
            train(third, params, range(3, 6))
            whole = parameters()
            uninterrupted = kind.ours(whole, **options)
            train(uninterrupted, whole, range(6))
            assert_same_bits(params, whole, str(options))
            assert_same_state(third.state_dict(), uninterrupted.state_dict())
        train(second, params, range(6, 7))
        assert not kind.counts or second.state_dict()["state"][0]["step"] == 4


def _kinds(state: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value is None else (value.dtype, value.shape) for key, value in state.items()}


@every
def test_optimizer__state_dict_before_the_first_step(kind: Kind) -> None:
    if not kind.same_groups:
        pytest.skip("the state dicts of this torch do not say whether weight decay is decoupled")
    for target in (kind.ours, kind.theirs):
        params, other = parameters(), parameters()
        optimizer, theirs = kind.ours(params, **kind.full), kind.theirs(other, **kind.full)
        assert_same_state(optimizer.state_dict(), theirs.state_dict())
        optimizer.load_state_dict(theirs.state_dict())
        second = target(other, lr=0.3)
        second.load_state_dict(optimizer.state_dict())
        train(second, other, range(2))
        train(optimizer, params, range(2))


@every
def test_optimizer__step_as_a_number(kind: Kind) -> None:
    if not kind.counts:
        return
    for number, load in product((int, float, torch.tensor, lambda x: torch.tensor(x, dtype=torch.float64)), BOTH):
        params, other = parameters(), parameters()
        optimizer, expected = kind.ours(params, lr=0.1), kind.ours(other, lr=0.1)
        train(optimizer, params, range(2))
        train(expected, other, range(4))
        saved = optimizer.state_dict()
        for state in saved["state"].values():
            state["step"] = number(state["step"].item())
        if load:
            optimizer = kind.ours(params)
            optimizer.load_state_dict(saved)
        train(optimizer, params, range(2, 4))
        assert_same_bits(params, other)
        assert all(float(state["step"]) == 4 for state in optimizer.state.values())


@every
def test_optimizer__steps_are_float32_and_not_shared(kind: Kind) -> None:
    before, params, other = torch.get_default_dtype(), parameters(), parameters()
    first, second = kind.ours(params), kind.ours(other)
    try:
        torch.set_default_dtype(torch.float64)
        train(first, params, range(1))
    finally:
        torch.set_default_dtype(before)
    second.load_state_dict(first.state_dict())
    train(first, params, range(1, 2))
    if kind.counts:
        assert all(state["step"].dtype is torch.float32 for state in first.state.values())
        assert [state["step"].item() for state in second.state.values()] == [1.0] * len(other)
        assert len({id(first.state[p]["step"]) for p in params}) == len(params)


@every
def test_optimizer__steps_of_other_kinds_are_counted(kind: Kind) -> None:
    """Integers, which go on behind 2**24, and what is made while another device is the default one."""
    if not kind.counts:
        pytest.skip("no steps")
    params = parameters()
    optimizer = kind.ours(params)
    train(optimizer, params, range(1))
    with torch.device("meta"):
        optimizer.step()
    assert [state["step"].item() for state in optimizer.state.values()] == [2.0] * len(params)
    for state in optimizer.state.values():
        state["step"] = torch.tensor(2**24)
    for _ in range(3):
        optimizer.step()
    found = [state["step"] for state in optimizer.state.values()]
    assert {(step.dtype, step.item()) for step in found} == {(torch.int64, 2**24 + 3)}


@every
def test_optimizer__options_switched_on_without_their_state(kind: Kind) -> None:
    for option, (value, key) in kind.needs.items():
        params = parameters()
        optimizer = kind.ours(params)
        train(optimizer, params, range(1))
        off = optimizer.param_groups[0][option]
        optimizer.param_groups[0][option] = value
        before = snapshot(optimizer, params)
        with pytest.raises(RepDLError, match=rf"{kind.name}: .* has no {key}, only .*{option}={value}"):
            optimizer.step()
        assert_same_bits(params, before[0])
        assert_same_state(optimizer.state_dict(), before[1])
        optimizer.param_groups[0][option] = off
        optimizer.step()


@every
def test_optimizer__options_switched_off_keep_their_state(kind: Kind) -> None:
    params = parameters()
    optimizer = kind.ours(params, **kind.full)
    train(optimizer, params, range(2))
    kept = copy.deepcopy(optimizer.state[params[0]])
    optimizer.param_groups[0].update({option: type(value)() for option, (value, _) in kind.needs.items()})
    train(optimizer, params, range(2, 3))
    for _, key in kind.needs.values():
        assert_same_bits(optimizer.state[params[0]][key], kept[key])


@every
def test_optimizer__parameters_and_groups_by_themselves(kind: Kind) -> None:
    """Parameters without a gradient stay behind; each group has its options, and an empty one does nothing."""
    params, other = parameters(), parameters()
    first, second = ({"weight_decay": 0.5}, {"weight_decay": 0.0}) if kind.weight_decay else ({"lr": 0.2}, {"lr": 0.1})
    groups: list[Options] = [{"params": params[:2], **first}, {"params": params[2:]}, {"params": []}]
    given = {"lr": 0.1, **kind.full}
    optimizer = kind.ours(groups, **{**given, **second})
    single = [kind.ours([p], **{**given, **(first if i < 2 else second)}) for i, p in enumerate(other)]
    assert optimizer.step() is None and (len(optimizer.state) == 0 or kind.begun)
    assert_same_bits(params, parameters())
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
    if kind.counts:
        assert [optimizer.state[p]["step"].item() for p in params] == [3, 2, 3, 2, 2]


@every
def test_optimizer__learning_rates_of_groups(kind: Kind) -> None:
    params, other = parameters(), parameters()
    groups: list[Options] = [{"params": params[:2], "lr": 0.5}, {"params": params[2:]}]
    optimizer = kind.ours(groups, lr=0.1, **kind.full)
    parts = [kind.ours(other[:2], lr=0.5, **kind.full), kind.ours(other[2:], lr=0.1, **kind.full)]
    for step in range(3):
        for group in (params, other):
            set_grads(group, step)
        optimizer.step()
        for part in parts:
            part.step()
    assert_same_bits(params, other)


@every
def test_optimizer__foreach_and_fused_have_no_effect_and_the_learning_rate_may_be_a_tensor(kind: Kind) -> None:
    expected = parameters()
    train(kind.ours(expected, lr=0.1, **kind.full), expected, range(3))
    fused = "fused" in inspect.signature(kind.ours).parameters
    ignored: list[Options] = [{"foreach": False}, {"foreach": True}, *[{"fused": f} for f in BOTH if fused]]
    for options in (*ignored, {"lr": torch.tensor(0.1, dtype=torch.float64)}):
        params = parameters()
        train(kind.ours(params, **{"lr": 0.1, **kind.full, **options}), params, range(3))
        assert_same_bits(params, expected, str(options))
    params, other, lr = parameters(), parameters(), torch.tensor(0.1)
    train(kind.ours(params, lr=lr), params, range(3))
    train(kind.ours(other, lr=lr.item()), other, range(3))
    assert_same_bits(params, other)
    with pytest.raises(ValueError, match="1-element"):
        kind.ours(params, lr=torch.tensor([0.1, 0.2]))


@every
def test_optimizer__step_lr(kind: Kind) -> None:
    # StepLR multiplies Python doubles, rounded the same on every machine.
    params, other = parameters(), parameters()
    optimizer = kind.ours(params, lr=0.3, **kind.full)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    expected, lr = kind.ours(other, lr=0.3, **kind.full), 0.3
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


@every
def test_optimizer__layouts_and_threads(kind: Kind) -> None:
    shapes: list[tuple[int, ...]] = [(9001,), (2, 3, 4, 5), (100, 80), (0,), (257,), (3,)]
    expected, before = parameters(shapes), repdl.get_num_threads()
    try:
        repdl.set_num_threads(1)
        train(kind.ours(expected, lr=0.1, **kind.full), expected, range(3))
        for threads in (1, 2, 3, 7):
            repdl.set_num_threads(threads)
            params = parameters(shapes)
            params[1].data = params[1].data.contiguous(memory_format=torch.channels_last)
            params[2].data = params[2].data.t().contiguous().t()
            optimizer = kind.ours(params, lr=0.1, **kind.full)
            train(optimizer, params, range(3))
            assert_same_bits(params, expected, f"{threads} threads")
            assert params[1].is_contiguous(memory_format=torch.channels_last)
            tensors = [t for t in optimizer.state[params[1]].values() if t.dim()]
            assert tensors and all(t.stride() == params[1].stride() for t in tensors)
    finally:
        repdl.set_num_threads(before)


@every
def test_optimizer__closure_grad_mode_and_hooks(kind: Kind) -> None:
    for enabled in BOTH:
        (weight,), called = params, _ = parameters([(4,)]), []
        optimizer = kind.ours(params, lr=0.1)
        optimizer.register_step_pre_hook(lambda *_, called=called: called.append("pre"))
        optimizer.register_step_post_hook(lambda *_, called=called: called.append("post"))

        def closure(optimizer: Any = optimizer, weight: Any = weight) -> torch.Tensor:
            assert torch.is_grad_enabled()
            optimizer.zero_grad()
            loss = (weight * weight).sum()
            loss.backward()
            return loss

        with torch.set_grad_enabled(enabled):
            loss = optimizer.step(closure)
            assert torch.is_grad_enabled() is enabled
        assert_same_bits(loss, (uniform(0, 4) * uniform(0, 4)).sum())
        assert called == ["pre", "post"]
        assert weight.requires_grad and weight.grad_fn is None and not torch.equal(weight, uniform(0, 4))
        assert not any(tensor.requires_grad for tensor in optimizer.state[weight].values() if tensor is not None)
        optimizer.zero_grad()
        assert weight.grad is None


@every
def test_optimizer__copies_go_on_alike(kind: Kind) -> None:
    def saved(pair: Any) -> Any:
        file = io.BytesIO()
        torch.save(pair, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    for way in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair)), saved):
        params = parameters()
        optimizer = kind.ours(params, lr=0.1, **kind.full)
        train(optimizer, params, range(2))
        params2, optimizer2 = way((params, optimizer))
        train(optimizer, params, range(2, 4))
        train(optimizer2, params2, range(2, 4))
        assert type(optimizer2) is kind.ours
        assert_same_bits(params2, params)
        assert_same_state(optimizer2.state_dict(), optimizer.state_dict())


@every
def test_optimizer__refuses_what_torch_refuses(kind: Kind) -> None:
    for options in kind.refused:
        with pytest.raises(ValueError) as theirs:
            kind.theirs(parameters(), **options)
        with pytest.raises(ValueError) as ours:
            kind.ours(parameters(), **options)
        assert str(ours.value) == str(theirs.value), options
    params = parameters()
    with pytest.raises(ValueError, match="more than one parameter group"):
        kind.ours([{"params": params[:2]}, {"params": params[1:]}])
    with pytest.raises(ValueError, match="empty parameter list"):
        kind.ours([])


@every
def test_optimizer__refuses_what_is_outside_the_contract(kind: Kind) -> None:
    """At construction, and in a state dict at the next step, which changes nothing."""
    for option in kind.outside:
        with pytest.raises(UnsupportedError, match=f"{kind.name}: {option}=True"):
            kind.ours(parameters(), **{option: True})
        params = parameters()
        optimizer = kind.ours(params)
        saved = optimizer.state_dict()
        saved["param_groups"][0][option] = True
        optimizer.load_state_dict(saved)
        set_grads(params, 0)
        with pytest.raises(UnsupportedError, match=f"{option}=True"):
            optimizer.step()
        assert_same_bits(params, parameters())
    for dtype in (torch.bfloat16, torch.float16, torch.complex64):
        bad = torch.nn.Parameter(torch.ones(2, dtype=dtype))
        for i, params in enumerate(([bad], [*parameters([(2,)]), bad])):
            with pytest.raises(DTypeError, match=rf"{kind.name}: params\[{i}\].dtype is"):
                kind.ours(params)
    optimizer = kind.ours([torch.nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)])
    optimizer.step()  # it has no gradient, ever
    with pytest.raises(DTypeError):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.float16))]})
    assert len(optimizer.param_groups) == 1


def _sparse(params: Params) -> None:
    params[3].grad = torch.tensor([0.0, 1.0]).to_sparse()


def _half(params: Params) -> None:
    params[3].data = params[3].data.half()
    params[3].grad = torch.ones(2, dtype=torch.float16)


def _expanded(params: Params) -> None:
    params[3].data = torch.zeros(1).expand(2)


def _overlapping(params: Params) -> None:
    params[3].data = params[0].data[:2]


SPOILT: list[tuple[Callable[[Params], None], type[Exception]]] = [
    (_sparse, UnsupportedError),
    (_half, DTypeError),
    (_expanded, UnsupportedError),
    (_overlapping, ShapeError),
]


@every
def test_optimizer__error_changes_nothing(kind: Kind) -> None:
    for (spoil, error), options, split, steps in product(SPOILT, ({}, kind.full), (1, 3, 4), (0, 1)):
        params = parameters([(5,), (4,), (3,), (2,)])
        optimizer = kind.ours([{"params": part} for part in (params[:split], params[split:])], lr=0.1, **options)
        train(optimizer, params, range(steps))
        set_grads(params, 7)
        spoil(params)
        before = snapshot(optimizer, params)
        with pytest.raises(error):
            optimizer.step()
        assert_same_bits([p.detach() for p in params], before[0], f"{spoil} {options} {split} {steps}")
        assert_same_state(optimizer.state_dict(), before[1])


@every
def test_optimizer__float64_beside_float32(kind: Kind) -> None:
    def trained(*dtypes: torch.dtype) -> list[torch.Tensor]:
        params = [torch.nn.Parameter(uniform(s, 4).to(d)) for s, d in enumerate(dtypes)]
        optimizer = kind.ours(params, lr=0.1)
        for seed, p in enumerate(params):
            p.grad = uniform(5 + seed, 4).to(p.dtype)
        optimizer.step()
        return [p.detach() for p in params]

    single, double = torch.float32, torch.float64
    assert_same_bits(trained(single, double), [trained(single, single)[0], trained(double, double)[1]])
