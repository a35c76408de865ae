"""`repdl.enable`: torch's ops with RepDL's bits, or an error."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import ops
from repdl.audit.kinds import Kind, kind_of
from repdl.errors import ArgumentError, UnsupportedError
from repdl.overrides.draws import DRAWS
from repdl.overrides.functions import FUNCTIONS


@pytest.fixture(autouse=True)
def torchs_own_afterwards() -> Iterator[None]:
    yield
    repdl.disable()


def values(*shape: int) -> torch.Tensor:
    return repdl.random.randn(*shape, generator=repdl.random.Generator(7))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(7), b.nan_to_num(7))


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


def test_enable__integers_stay_torchs() -> None:
    i = torch.arange(6)
    with repdl.enabled():
        assert (i + 1).tolist() == [1, 2, 3, 4, 5, 6]
        assert (i * 2).sum().item() == 30
        assert i.clone().add_(i).max().item() == 10
        assert (i.to(torch.uint8) + 250).tolist() == [250, 251, 252, 253, 254, 255]
        assert torch.tensor(2, dtype=torch.int32).add(3).dtype is torch.int32
        assert (i % 4).tolist() == [0, 1, 2, 3, 0, 1]
        assert torch.equal(i / 4, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0, 1.25]))
        assert i.cumsum(0).tolist() == [0, 1, 3, 6, 10, 15]
        version = i._version
        i.add_(1)
        assert i._version == version + 1


def test_enable__refuses_what_is_not_reproducible() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(self.inner(x))

    model = torch.nn.Sequential(Model())
    with repdl.enabled(), pytest.raises(UnsupportedError) as raised:
        model(values(3, 3))
    message = str(raised.value)
    assert "linalg_inv_ex" in message and " in 0, " in message
    assert "test_enable.py:" in message and "torch.linalg.inv(self.inner(x))" in message
    torch.linalg.inv(values(3, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.fft.fft(x),
        lambda x: x.lgamma(),
        lambda x: torch.ops.aten._fused_adagrad_(
            [x], [x], [x], [torch.tensor(1.0)], lr=0.1, lr_decay=0.0, weight_decay=0.0, eps=1e-8, maximize=False
        ),
        lambda x: torch._foreach_lgamma([x]),
        lambda x: torch.digamma(x),
        lambda x: x.unique(),
        lambda x: torch.add(x.to_sparse(), x.to_sparse()),
        lambda x: torch.complex(x, x).abs(),
        lambda x: torch.arange(0, 1, 0.1),
        lambda x: torch.round(x, decimals=2),
        lambda x: torch.ops.aten._grid_sampler_2d_cpu_fallback(x.view(1, 1, 2, 2), x.view(1, 1, 2, 2), 0, 0, False),
    ],
)  # fmt: skip
def test_enable__refusals(call: Callable[[torch.Tensor], Any]) -> None:
    with repdl.enabled(), pytest.raises(repdl.RepDLError):
        call(values(4))


def test_enable__refuses_in_other_threads_and_in_backward_passes() -> None:
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return grad * x.lgamma()

    found: list[BaseException] = []

    def run() -> None:
        try:
            torch.lgamma(values(3))
        except UnsupportedError as error:
            found.append(error)

    with repdl.enabled():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert len(found) == 1
        with pytest.raises(
            UnsupportedError, match=r"lgamma.*`return grad \* x.lgamma\(\)`, in the derivative CubedBackward"
        ):
            Cubed.apply(values(3).requires_grad_()).sum().backward()


def test_enable__warns_if_asked_to() -> None:
    x = values(3).abs()
    expected = r"repdl.enable: not reproducible: aten.lgamma.*test_enable.py"
    with repdl.enabled(on_uncovered="warn"), pytest.warns(UserWarning, match=expected):
        found = x.lgamma()
    assert torch.equal(found, x.lgamma())
    with pytest.raises(ArgumentError, match="on_uncovered"):
        repdl.enable(on_uncovered="ignore")


def test_enable__nothing_is_left_behind() -> None:
    x = values(1000)
    before = x.sum(), torch.backends.mha.get_fastpath_enabled(), repdl.get_contract()
    with pytest.raises(ZeroDivisionError), repdl.enabled(contract="sequential"):
        with repdl.enabled():
            pass
        assert str(repdl.get_contract()) == "sequential"
        assert same(x.sum(), ops.sum(x, contract="sequential"))
        raise ZeroDivisionError
    assert (x.sum(), torch.backends.mha.get_fastpath_enabled(), repdl.get_contract()) == before
    x.lgamma()
    repdl.disable()


def test_enable__is_quick() -> None:
    repdl.enable()
    repdl.disable()
    begin = time.process_time()
    for _ in range(5):
        repdl.enable()
        repdl.disable()
    assert time.process_time() - begin < 5 * 1.0  # a gross bound: 0.1 s each where nothing else runs


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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_enable__conversions_to_integers_are_defined(dtype: torch.dtype) -> None:
    x = torch.tensor([1.5, -2.7, 300.0, 1e10, 1e30, float("nan"), float("-inf")])
    low = torch.iinfo(torch.int64 if dtype is torch.int64 else torch.int32).min
    high = 10**10 if dtype is torch.int64 else low
    expected = torch.tensor([1, -2, 300, high, low, low, low]).to(dtype)
    with repdl.enabled():
        assert torch.equal(x.to(dtype), expected)
        assert torch.equal(torch.empty(7, dtype=dtype).copy_(x), expected)


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


def test_enable__what_is_compiled_runs_uncompiled() -> None:
    x = values(1000)
    compiled = torch.compile(lambda t: t.sum() * 3, backend="eager", fullgraph=True)
    compiled(x)
    with repdl.enabled():
        assert same(compiled(x), ops.mul(ops.sum(x), 3))
    assert torch._dynamo.eval_frame._stance.stance == "default"


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


@pytest.mark.parametrize("layout", ["sparse", "csr", "quantized", "nested", "mkldnn"])
def test_enable__refuses_other_layouts(layout: str) -> None:
    x = values(3, 3)
    made: Any = {
        "sparse": x.to_sparse,
        "csr": x.to_sparse_csr,
        "quantized": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "nested": lambda: torch.nested.nested_tensor([x, x]),
        "mkldnn": x.to_mkldnn,
    }[layout]
    for inference in (False, True):
        with torch.inference_mode(inference):
            tensor = made()
            with repdl.enabled(), pytest.raises(repdl.RepDLError):
                tensor * tensor if layout != "quantized" else torch.relu(tensor)


def test_enable__transforms() -> None:
    x, w = values(4, 6), values(6)
    with repdl.enabled():
        grad = torch.func.grad(lambda w: (x @ w).tanh().sum())(w)
        each = torch.vmap(torch.func.grad(lambda w, row: (row * w).sum().tanh()), in_dims=(None, 0))(w, x)
    assert same(grad, torch.func.grad(lambda w: ops.sum(ops.tanh(ops.mv(x, w))))(w))
    assert same(each[1], torch.func.grad(lambda w: ops.tanh(ops.sum(ops.mul(x[1], w))))(w))


PROGRAM = """
import sys
import torch
torch.manual_seed(0)
print(sys.argv[1:], torch.randn(2).tolist())
torch.ones(2).lgamma()
"""


@pytest.mark.parametrize("way", ["run", "module", "environment"])
def test_enable__programs_that_are_not_edited(tmp_path: Path, way: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    first = repdl.random.randn(2, generator=repdl.random.Generator(0)).tolist()
    start = "from repdl.overrides.program import start; start(); import runpy; runpy.run_path('program.py')"
    command, variables = {
        "run": (["-m", "repdl", "run", "program.py", "--epochs", "3"], {}),
        "module": (["-m", "repdl", "run", "-m", "program", "--epochs", "3"], {}),
        "environment": (["-c", start, "--epochs", "3"], {"REPDL_ENABLE": "1"}),
    }[way]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | variables,
        check=False,
    )
    assert done.stdout == f"['--epochs', '3'] {first}\n", done.stderr
    assert done.returncode == 1
    assert re.search(r"not reproducible: aten.lgamma.default, .*program.py:6 `torch.ones\(2\).lgamma\(\)`", done.stderr)


def test_enable__an_environment_that_is_not_understood_ends_the_process() -> None:
    start = "from repdl.overrides.program import start; start()"
    done = subprocess.run(
        [sys.executable, "-c", start],
        capture_output=True,
        text=True,
        env=os.environ | {"REPDL_ENABLE": "yes"},
        check=False,
    )
    assert done.returncode == 1
    assert "REPDL_ENABLE is 'yes', expected 0, 1, raise or warn" in done.stderr


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
    missing = {n for n in public if n in names and n not in FUNCTIONS and n not in DRAWS}
    moves = {n for n in missing if kind_of(n) in (Kind.MOVES, Kind.EXACT)}
    composed = {"argsort", "expand", "broadcast_to", "repeat_interleave", "tensordot", "tile"}
    assert missing - moves <= composed
