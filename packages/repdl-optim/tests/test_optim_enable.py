"""torch's optimizers under `repdl.enable()` have the bits of RepDL's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from typing import Any

import pytest
import torch
from test_options import ENDLESS
from torch.utils._python_dispatch import TorchDispatchMode

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.overrides.functions import functions
from repdl.overrides.optimizers import STEPS as STEPS_OF_ALL
from repdl.tensors.nested import tensors_among
from repdl.testing import processes
from repdl.testing.compare import assert_same_bits

pytest.importorskip("expecttest", reason="torch's database of optimizers needs it")
with pytest.MonkeyPatch.context() as patch:  # torch's module would freeze flags for all tests of the process
    patch.setattr(torch.backends, "disable_global_flags", lambda: None)
    from torch.testing._internal.common_optimizers import optim_db

CASES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"lr": 0.1, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "centered": True}),
]


def values(*shape: int) -> torch.Tensor:
    return repdl.random.randn(*shape, generator=repdl.random.Generator(7))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


@contextmanager
def op_by_op() -> Iterator[None]:
    """What is enabled in the block computes the ops of torch's steps one by one."""
    functions()  # fills STEPS
    assert STEPS_OF_ALL.keys() >= {"adam", "sgd"}
    with pytest.MonkeyPatch.context() as patch:
        for name in list(STEPS_OF_ALL):
            patch.delitem(STEPS_OF_ALL, name)
        yield


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("way", ["single", "foreach", "fused"])
def test_enable__optimizers(name: str, options: dict[str, Any], way: str) -> None:
    if way == "fused" and name == "RMSprop":
        pytest.skip("torch has none")
    flags = {"foreach": way == "foreach"} | ({} if name == "RMSprop" else {"fused": way == "fused"})
    ours, theirs = ([t.clone().requires_grad_() for t in (values(3, 5), values(7))] for _ in range(2))
    optimizers = getattr(repdl.optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **flags, **options)
    with repdl.enabled():
        for step in range(3):
            for parameters, optimizer in zip((ours, theirs), optimizers):
                for number, parameter in enumerate(parameters):
                    begins = number if name != "SGD" else 0  # torch's fused SGD wants momentum of all, or of none
                    parameter.grad = ops.mul(parameter.detach(), 0.3) if step >= begins else None
                optimizer.step()
    assert all(map(same, (p.detach() for p in ours), (p.detach() for p in theirs)))


def test_enable__scaled_gradients_of_a_fused_step() -> None:
    found = []
    for fused in (False, True):
        weight = values(5).requires_grad_()
        optimizer = torch.optim.Adam([weight], lr=0.5, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        with repdl.enabled():
            for factor in (0.5, 1e38, 0.25, 0.125):
                optimizer.zero_grad()
                scaler.scale((weight * factor).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
        found.append((weight.detach(), scaler.get_scale()))
    assert same(found[0][0], found[1][0]) and found[0][1] == found[1][1]


INFOS = {info.optim_cls.__name__: info for info in optim_db}
STEPS = 8
BOUNDS = {"LBFGS": 2.0**-13, "Muon": 2.0**-13}
BOUND = STEPS * 32 * 2.0**-24
"""Of the largest parameter: a step has at most 32 roundings, each of 2**-24 of a number that is no larger. LBFGS and
Muon make tens of products of one step."""


def ways(name: str) -> dict[str, dict[str, bool]]:
    known = INFOS[name].supported_impls
    single = {"single": {"foreach": False}} if known else {"single": {}}
    return single | {way: {way: True} for way in ("foreach", "fused") if way in known}


def stepped(name: str, module: Any, options: dict[str, Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """Parameters after some steps down a quadratic function."""
    shapes = ((3, 5), (4, 2)) if name == "Muon" else ((3, 5), (4, 2), (7,))
    parameters = [values(*shape).to(dtype).requires_grad_() for shape in shapes]
    options = {k: v.to(dtype) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    options |= {"max_iter": 3} if name == "LBFGS" else {}
    optimizer = getattr(module, name)(parameters, **options)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = torch.stack([(p * p * 0.15 + p * 0.1).sum() for p in parameters]).sum()
        total.backward()
        if name == "SparseAdam":
            for parameter in parameters:
                assert parameter.grad is not None
                indices = torch.arange(len(parameter)).unsqueeze(0)
                parameter.grad = torch.sparse_coo_tensor(indices, parameter.grad, parameter.shape)
        return total

    for _ in range(STEPS):
        optimizer.step(loss)
    return [parameter.detach() for parameter in parameters]


@pytest.mark.parametrize("name", sorted(INFOS))
def test_enable__every_optimizer_of_torch_with_each_of_its_options(name: str) -> None:
    """One result for every way, by every backend, RepDL's own optimizer included, near the one in float64."""
    given = [each.kwargs for each in INFOS[name].optim_inputs_func("cpu")]
    given = [options for options in given if not options.keys() >= ENDLESS]
    if INFOS[name].only_supports_sparse_grads:
        with repdl.enabled():
            for options in given:
                with pytest.raises(UnsupportedError, match="another layout"):
                    stepped(name, torch.optim, options, torch.float32)
        return
    single = ways(name)["single"]
    exact = [stepped(name, torch.optim, options | single, torch.float64) for options in given]
    with op_by_op(), repdl.enabled():
        found = [{"op by op": stepped(name, torch.optim, options | single, torch.float32)} for options in given]
    with repdl.enabled():
        for options, results in zip(given, found):
            for way, flags in ways(name).items():
                results[way] = stepped(name, torch.optim, options | flags, torch.float32)
            if not options:  # it takes seconds, and the parity suites compare each step with it
                with repdl.use_backend("reference"):
                    results["reference"] = stepped(name, torch.optim, single, torch.float32)
            if hasattr(repdl.optim, name):
                results["repdl.optim"] = stepped(name, repdl.optim, options, torch.float32)
    bound = BOUNDS.get(name, BOUND)
    for options, results, reals in zip(given, found, exact):
        for way, result in results.items():
            for ours, first, real in zip(result, results["single"], reals):
                assert same(ours, first), (options, way)
                assert (ours.double() - real).abs().max() <= bound * max(1.0, float(real.abs().max())), (options, way)
        moved = max(float((a - values(*a.shape)).abs().max()) for a in results["single"])
        assert moved > 2 * bound, options


FUSED = ["ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
"""Whose step is one op."""


def after(optimizer_class: Any, options: dict[str, Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """Parameters and state after steps of any gradients."""
    parameters = [values(*shape).to(dtype).mul_(1.3).requires_grad_() for shape in ((3, 5), (7,), (300,))]
    optimizer = optimizer_class(parameters, **options)
    for step in range(STEPS):
        for number, parameter in enumerate(parameters):
            generator = repdl.random.Generator(100 + 7 * step + number)
            parameter.grad = repdl.random.randn(*parameter.shape, generator=generator).to(dtype).mul_(0.37)
        optimizer.step()
    states = [optimizer.state[p] for p in parameters]
    return [*parameters, *(state[key] for state in states for key in sorted(state) if state[key] is not None)]


@pytest.mark.parametrize("name", FUSED)
def test_optimizers__have_the_bits_of_torchs_with_each_of_its_options(name: str) -> None:
    """By the reference and at each ISA level, of float32 and float64, state included."""
    isa = pytest.importorskip("repdl_cpu.isa")
    inputs = [sample.kwargs for sample in INFOS[name].optim_inputs_func("cpu")]
    runs = list(product((torch.float32, torch.float64), inputs))
    torchs, ours = getattr(torch.optim, name), getattr(repdl.optim, name)
    with op_by_op(), repdl.enabled():
        expected = [after(torchs, given, dtype) for dtype, given in runs]
    with repdl.enabled():
        enabled = [after(torchs, given, dtype) for dtype, given in runs]
    for (dtype, given), single, whole in zip(runs, expected, enabled):
        assert_same_bits(whole, single, f"{given}, enabled")
        with repdl.use_backend("reference"):
            assert_same_bits(after(ours, given, dtype), single, f"{given}, reference")
        for level in isa.supported_isas():
            with isa.use_isa(level):
                assert_same_bits(after(ours, given, dtype), single, f"{given}, {level}")


WHOLE = {
    "Adadelta": "adadelta_step",
    "Adagrad": "adagrad_step",
    "Adam": "adam_step",
    "AdamW": "adam_step",
    "Adamax": "adamax_step",
    "RAdam": "radam_step",
    "RMSprop": "rmsprop_step",
    "Rprop": "rprop_step",
    "SGD": "sgd_step",
}
"""Whose step is one op under `repdl.enable()`."""


class Ops(TorchDispatchMode):
    """The names of the ops that run on more than one number, such as that of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(tensor.numel() > 1 for tensor in tensors_among(args)):
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("foreach", [False, True])
def test_enable__a_step_is_one_op(name: str, foreach: bool) -> None:
    parameters = [values(3, 5).requires_grad_(), values(7).requires_grad_()]
    optimizer = getattr(torch.optim, name)(parameters, foreach=foreach)
    for parameter in parameters:
        parameter.grad = values(*parameter.shape)
    with repdl.enabled():
        optimizer.step()
        with Ops() as ops_of_step:
            optimizer.step()
    assert ops_of_step.names == [WHOLE[name]]


COUNTS = {"a count that stays": 2.0**24, "a fraction as a count": 2.5}
STRANGE = ["two dtypes", "shared memory", "a tensor as a rate", "two numbers of steps", "one count for two", *COUNTS]


def _strange(case: str) -> Any:
    """An optimizer whose step no op takes for all parameters."""
    first, second = values(3, 5), values(7)
    if case == "two dtypes":
        second = second.double()
    if case == "shared memory":
        second = first[1:]
    parameters = [first.requires_grad_(), second.detach().requires_grad_()]
    lr = torch.tensor(0.01) if case == "a tensor as a rate" else 0.01
    optimizer = torch.optim.Adam(parameters, lr=lr, betas=(0.9, 0.9999999))
    for step in range(3):
        if step == 1 and case in COUNTS:
            for parameter in parameters:
                optimizer.state[parameter]["step"].fill_(COUNTS[case])
        if step == 1 and case == "one count for two":
            optimizer.state[parameters[0]]["step"] = optimizer.state[parameters[1]]["step"]
        for number, parameter in enumerate(parameters):
            late = case == "two numbers of steps" and number == 1 and step == 0
            parameter.grad = None if late else values(*parameter.shape).to(parameter.dtype)
        optimizer.step()
    return [*parameters, *(optimizer.state[p]["step"] for p in parameters)]


@pytest.mark.parametrize("case", STRANGE)
def test_enable__other_steps_are_torchs_op_by_op(case: str) -> None:
    with op_by_op(), repdl.enabled():
        expected = _strange(case)
    with repdl.enabled():
        assert_same_bits(_strange(case), expected, case)


def test_enable__buffers_of_sgd_have_the_strides_of_gradients() -> None:
    found = []
    for context in (op_by_op(), nullcontext()):
        parameter = values(3, 4).requires_grad_()
        parameter.grad = values(4, 3).t()
        optimizer = torch.optim.SGD([parameter], momentum=0.9)
        with context, repdl.enabled():
            optimizer.step()
        found.append(optimizer.state[parameter]["momentum_buffer"])
    assert found[0].stride() == found[1].stride() == (1, 3)
    assert same(*found)


SCRIPTED = """
import torch, repdl
repdl.enable()
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.optim.functional_adam import _FunctionalAdam
x = torch.ones(3)
_FunctionalAdam([x], lr=0.5).step([torch.ones(3)])
assert 0 < x.max().item() < 1, x
"""


def test_enable__torchscript_compiles_torchs_steps() -> None:
    done = processes.python("-c", SCRIPTED)
    assert done.returncode == 0, done.stderr
