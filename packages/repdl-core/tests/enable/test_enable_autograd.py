"""What programs do with autograd and with state, under `repdl.enable()`."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import repdl
from repdl import ops

Tensor = torch.Tensor


def values(*shape: int, seed: int = 7) -> Tensor:
    return repdl.random.randn(*shape, generator=repdl.random.Generator(seed))


def same(a: Tensor, b: Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a, b)


def theirs(x: Tensor, w: Tensor) -> Tensor:
    return ((x @ w).tanh() * x.sum(1, keepdim=True)).softmax(1)[:, 0].sum()


def ours(x: Tensor, w: Tensor) -> Tensor:
    product = ops.mul(ops.tanh(ops.mm(x, w)), ops.sum(x, 1, keepdim=True))
    return ops.sum(ops.softmax(product, 1)[:, 0])


def leaves() -> tuple[Tensor, Tensor]:
    return values(5, 70).requires_grad_(), values(70, 3, seed=8).requires_grad_()


def gradients(function: Callable[..., Tensor]) -> list[Tensor]:
    given = leaves()
    return list(torch.autograd.grad(function(*given), given))


def test_enable__the_graph_is_kept() -> None:
    x, w = leaves()
    with repdl.enabled():
        loss = theirs(x, w)
        loss.backward(retain_graph=True)
        once = w.grad.clone()
        loss.backward()
    assert same(once, gradients(ours)[1]) and same(w.grad, once * 2)


def test_enable__derivatives_of_derivatives() -> None:
    def second(function: Callable[..., Tensor]) -> list[Tensor]:
        given = leaves()
        first = torch.autograd.grad(function(*given), given, create_graph=True)
        penalty = first[0].square().sum() if function is theirs else ops.sum(ops.square(first[0]))
        return list(torch.autograd.grad(penalty, given))

    expected = second(ours)
    with repdl.enabled():
        found = second(theirs)
    assert all(map(same, found, expected)) and found[1].abs().sum() > 0


class Linear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return ops.linear(input, self.weight, self.bias)


def test_enable__hooks() -> None:
    """Of tensors and modules, before and after, forward and backward: they run, and compute as RepDL does."""

    def run(softmax: Callable[..., Tensor], layer: nn.Module) -> list[Tensor]:
        x = values(4, 70, seed=9).requires_grad_()
        x.register_hook(lambda grad: softmax(grad, -1))
        called = []
        layer.register_forward_pre_hook(lambda module, inputs: (softmax(inputs[0], -1),))
        layer.register_forward_hook(lambda module, inputs, output: softmax(output, -1))
        layer.register_full_backward_pre_hook(lambda module, grads: (softmax(grads[0], -1),))
        layer.register_full_backward_hook(lambda module, inputs, grads: called.append(softmax(grads[0], -1)))
        output = layer(x)
        output.backward(values(4, 3))
        return [output.detach(), x.grad, layer.weight.grad, *called]

    layers = Linear(70, 3), nn.Linear(70, 3)
    for layer in layers:
        layer.weight.data, layer.bias.data = values(3, 70), values(3)
    expected = run(ops.softmax, layers[0])
    with repdl.enabled():
        found = run(torch.softmax, layers[1])
    assert len(found) == 4 and all(map(same, found, expected))


def test_enable__anomalies() -> None:
    with repdl.enabled(), torch.autograd.set_detect_anomaly(True):
        assert all(map(same, gradients(theirs), gradients(ours)))
        x = torch.zeros(3, requires_grad=True)
        with pytest.warns(UserWarning, match="forward call"), pytest.raises(RuntimeError, match="nan values"):
            (x.sqrt() * 0).sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_enable__checkpoints(reentrant: bool) -> None:
    def run(through: Callable[..., Tensor]) -> list[Tensor]:
        x, w = leaves()
        torch.manual_seed(3)
        loss = through(lambda a, b: F.dropout(theirs(a, b) * F.dropout(a), 0.3), x, w).square().sum()
        loss.backward()
        return [loss.detach(), x.grad, w.grad]

    with repdl.enabled():
        expected = run(lambda function, *args: function(*args))
        found = run(lambda function, *args: checkpoint(function, *args, use_reentrant=reentrant))
    assert all(map(same, found, expected))


class Swish(torch.autograd.Function):
    """A function of a program's own, of torch's ops."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


def test_enable__functions_of_autograd() -> None:
    x = values(50).requires_grad_()
    with repdl.enabled():
        y = Swish.apply(x)
        y.backward(values(50, seed=8))
    s = ops.sigmoid(x.detach())
    assert same(y.detach(), ops.mul(x.detach(), s))
    factor = ops.add(s, ops.mul(ops.mul(x.detach(), s), ops.sub(1, s)))
    assert same(x.grad, ops.mul(values(50, seed=8), factor))


@pytest.mark.parametrize("name", ["jacobian", "hessian"])
@pytest.mark.parametrize("vectorize", [False, True])
def test_enable__matrices_of_derivatives(name: str, vectorize: bool) -> None:
    x, w = values(2, 5), values(5, 3, seed=8)
    matrix = getattr(torch.autograd.functional, name)
    expected = matrix(lambda a: ours(a, w), x)
    with repdl.enabled():
        found = matrix(lambda a: theirs(a, w), x, vectorize=vectorize)
    assert same(found, expected) and found.abs().sum() > 0


def test_enable__autocast_within_autocast() -> None:
    x, w = values(4, 8), values(8, 3)
    half = ops.mm(x.bfloat16(), w.bfloat16())
    with repdl.enabled(), torch.autocast("cpu", torch.bfloat16):
        assert same(x @ w, half)
        with torch.autocast("cpu", enabled=False):
            assert same(x @ w, ops.mm(x, w))
            with torch.autocast("cpu", torch.float16):
                assert same(x @ w, ops.mm(x.half(), w.half()))
        assert same(x @ w, half)


def test_enable__a_run_that_is_interrupted(tmp_path: Path) -> None:
    """Model, optimizer, schedule and generator, saved and loaded, go on as if nothing had happened."""

    def begin() -> tuple[nn.Module, Any, Any]:
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.BatchNorm1d(16), nn.Linear(16, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def train(model: nn.Module, optimizer: Any, schedule: Any) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 8)), torch.randint(3, (6,))).backward()
            optimizer.step()
            schedule.step()

    with repdl.enabled():
        torch.manual_seed(0)
        program = begin()
        train(*program)
        states = [part.state_dict() for part in program]
        torch.save((states, torch.get_rng_state()), tmp_path / "state.pt")
        duplicate = copy.deepcopy(program[0])
        train(*program)
        loaded, generator = torch.load(tmp_path / "state.pt", weights_only=True)
        torch.manual_seed(5)
        again = begin()
        for part, state in zip(again, loaded):
            part.load_state_dict(state)
        torch.set_rng_state(generator)
        assert repdl.digest(duplicate.state_dict()) == repdl.digest(again[0].state_dict())
        train(*again)
    assert repdl.digest(again[0].state_dict()) == repdl.digest(program[0].state_dict())
    assert repdl.digest(duplicate.state_dict()) != repdl.digest(program[0].state_dict())


LOADER = """
import sys, torch, repdl

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        seed = torch.utils.data.get_worker_info().seed
        return torch.cat([torch.tensor([index, seed & 0xFFFFFF]), torch.randn(2).view(torch.int32)])

def begin(worker):
    repdl.enable()

if __name__ == "__main__":
    for context in sys.argv[1:]:
        init = begin if context == "spawn" else None
        with repdl.enabled():
            torch.manual_seed(0)
            loader = torch.utils.data.DataLoader(
                Numbers(), shuffle=True, num_workers=2, multiprocessing_context=context, worker_init_fn=init
            )
            print(torch.cat([*loader]).tolist())
"""


@pytest.mark.nightly
def test_enable__workers_draw_the_same_numbers_forked_or_spawned(tmp_path: Path) -> None:
    """The order, the seeds of workers and what they draw follow from the seed alone."""
    (tmp_path / "program.py").write_text(LOADER)
    found = set()
    for level, contexts in (("default", ["fork", "spawn"]), ("avx2", ["fork"])):
        environment = os.environ | {"ATEN_CPU_CAPABILITY": level}
        command = [sys.executable, "program.py", *contexts]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found |= {*done.stdout.splitlines()}
    assert len(found) == 1
    rows = json.loads(found.pop())
    with repdl.enabled():
        torch.manual_seed(0)
        base = torch.empty((), dtype=torch.int64).random_().item()
    assert sorted(row[0] for row in rows) == [0, 1, 2, 3] and {row[1] for row in rows} == {
        (base + worker) & 0xFFFFFF for worker in (0, 1)
    }
    for worker in (0, 1):
        draws = repdl.random.Generator(base + worker)
        drawn = [repdl.random.randn(2, generator=draws).view(torch.int32).tolist() for _ in range(2)]
        assert [row[2:] for row in rows if row[1] == (base + worker) & 0xFFFFFF] == drawn
