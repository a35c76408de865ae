"""`repdl.enable`: torch's ops with RepDL's bits, or an error."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import operator
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import ops
from repdl.audit.kinds import Kind, kind_of, plain_name
from repdl.errors import ArgumentError, ContractError, UnsupportedError
from repdl.overrides import switch
from repdl.overrides.functions import FUNCTIONS
from repdl.overrides.kernels import kernels


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
        assert i.square().tolist() == [0, 1, 4, 9, 16, 25] and i.diff().tolist() == [1] * 5
        assert torch.outer(i, i)[5].tolist() == [0, 5, 10, 15, 20, 25]
        assert torch.kron(i, i[:3])[-3:].tolist() == [0, 5, 10]
        version = i._version
        i.add_(1)
        assert i._version == version + 1


INTEGERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a fraction": lambda i: torch.stack([i * 0.5, 0.5 * i, i + 0.5, 1.5 - i, i % 1.5, i // 1.5, i.bool() * 0.5]),
    "trapezoid": lambda i: torch.trapezoid(i, dx=0.5),
    "quotients": lambda i: torch.stack([torch.div(-i, 2, rounding_mode=mode) for mode in ("floor", "trunc")]),
    "true quotient": lambda i: torch.div(-i, 2, rounding_mode=None),
    "quotient in place": lambda i: i.clone().div_(2, rounding_mode="trunc"),
    "products": lambda i: torch.cat([i.outer(i), i.square().unsqueeze(0), torch.kron(i, i).view(3, 3)]),
    "matmul": lambda i: i.view(1, 3) @ i.view(3, 1),
    "einsum": lambda i: torch.einsum("i,i->", i, i),
    "diff": lambda i: i.diff(),
    "means": lambda i: torch.zeros_like(i).scatter_reduce(0, i, i, "mean"),
}
"""Where a function of RepDL has the name of torch's, too."""


@pytest.mark.parametrize("name", INTEGERS)
def test_enable__integers_give_what_torch_gives(name: str) -> None:
    i = torch.arange(3)
    expected = INTEGERS[name](i)
    for inference in (False, True):
        with repdl.enabled(), torch.inference_mode(inference):
            found = INTEGERS[name](i)
        assert found.dtype is expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "matmul", "pow"])
def test_enable__operators_say_which_dtype_is_not_covered(name: str) -> None:
    """Python would make another error of a TypeError."""
    x = values(4).to(torch.float64 if name == "pow" else torch.complex64)
    with repdl.enabled(), pytest.raises(UnsupportedError, match=r"dtype is (complex|float)64, expected float32"):
        getattr(operator, name)(x, x)


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


def test_enable__what_torch_computes_has_a_derivative() -> None:
    """What torch computes forward has no derivative that is refused, where nobody could say the line of the program.

    Autograd's C++ calls ops named after the forward one, or composes what the forward ones do.
    """
    known = {plain_name(name) for name in torch._C._dispatch_get_all_op_names()}
    torchs = {n for n in known if kind_of(n) not in (None, Kind.DRAWS, Kind.REFUSED) and n not in FUNCTIONS}
    assert "gather" in torchs
    refused = {n for n in known if kind_of(n) is Kind.REFUSED and n not in FUNCTIONS}
    assert "linalg_inv_ex" in refused
    assert not {n for n in refused if re.sub("_backward.*", "", n) in torchs and "_backward" in n}


def test_enable__refuses_in_compiled_functions() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.lgamma() + 1

    compiled = torch.compile(function, backend="eager")
    compiled(values(3))
    line = function.__code__.co_firstlineno + 1
    with repdl.enabled(), pytest.raises(UnsupportedError, match=rf"lgamma.*test_enable.py:{line} "):
        compiled(values(3))


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


def test_enable__refuses_quantized_ops_of_other_namespaces() -> None:
    x = torch.quantize_per_tensor(values(3, 3), 0.1, 0, torch.qint8)
    torch.ops.quantized.add(x, x, 0.1, 0)
    with repdl.enabled(), pytest.raises(UnsupportedError, match="quantized.add"):
        torch.ops.quantized.add(x, x, 0.1, 0)


def test_enable__refuses_other_layouts_on_gpus() -> None:
    with torch.library._scoped_library("repdl_tests", "FRAGMENT") as library:
        library.define("of_layouts(Tensor x) -> Tensor")
        keys = ["SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA", "NestedTensorCUDA"]
        for key in keys:
            library.impl("of_layouts", lambda x: x, key)
        refused = [
            key
            for name, key, *_ in kernels("CUDA", "raise", torch._C._dispatch_get_all_op_names())
            if name == "repdl_tests::of_layouts"
        ]
    assert refused == keys


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
    missing = {n for n in public if n in names and n not in FUNCTIONS}
    moves = {n for n in missing if kind_of(n) in (Kind.MOVES, Kind.EXACT)}
    composed = {"argsort", "expand", "broadcast_to", "repeat_interleave", "tensordot", "tile"}
    assert missing - moves <= composed


def test_enable__order_of_equal_integers() -> None:
    i = torch.arange(300) % 3  # so many that torch's unstable sort does not keep their order
    for values in (i, i.to(torch.uint8), i > 1):
        expected = torch.sort(values, stable=True)
        with repdl.enabled():
            found = [torch.sort(values), values.msort(), values.argsort(), torch.sort(values, stable=False)]
            out = torch.sort(values, out=(torch.empty_like(values), torch.empty_like(i)))
        assert torch.equal(found[0][1], expected[1]) and torch.equal(found[1], expected[0])
        assert torch.equal(found[2], expected[1]) and torch.equal(found[3][1], expected[1])
        assert torch.equal(out[1], expected[1]) and torch.equal(out[0], expected[0])
    with repdl.enabled():
        assert i.topk(4).indices.tolist() == [2, 5, 8, 11]
        assert (i.kthvalue(1).indices, i.kthvalue(100).indices, i.kthvalue(101).indices) == (0, 297, 1)
        assert i.max(0).indices == 2 and i.min(0).indices == 0 and i.argmax() == 2
        assert i.mode().indices == ops.mode(i)[1] and i.median(0).indices == ops.median(i, 0)[1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
def test_enable__last_of_several_values_of_one_place(dtype: torch.dtype) -> None:
    index, values = torch.arange(40_000) % 2, (torch.arange(40_000) == 39_999).to(dtype)
    with repdl.enabled():
        for write in (
            lambda place: place.index_put_((index,), values),
            lambda place: place.put_(index, values),
            lambda place: torch.ops.aten._index_put_impl_(place, [index], values),
            lambda place: torch.index_put(place, (index,), values),
            lambda place: torch.ops.aten._unsafe_index_put(place, [index], values),
        ):
            assert write(torch.ones(2, dtype=dtype)).tolist() == [0, 1]
        summed = torch.zeros(2, dtype=dtype).index_put_((index,), values, accumulate=True)
    assert summed.tolist() == [0, 1]


def test_enable__integers_with_a_number_that_has_a_fraction() -> None:
    i = torch.arange(1, 100)
    x = i.to(torch.float32)
    with repdl.enabled():
        for found, expected in (
            (i**0.3, ops.pow(x, 0.3)),
            (0.3**i, ops.pow(0.3, x)),
            (i * 0.3, ops.mul(x, 0.3)),
            (i + 0.3, ops.add(x, 0.3)),
            (0.3 - i, ops.sub(0.3, x)),
            (i % 0.3, ops.remainder(x, 0.3)),
            (i / 0.3, ops.div(x, 0.3)),
            (i.clamp(1.5, 7.5), ops.clamp(x, 1.5, 7.5)),
            (i.floor_divide(0.3), ops.floor_divide(x, 0.3)),
        ):
            assert same(found, expected)
        assert torch.equal(i.div(3, rounding_mode="trunc"), i // 3)
        assert torch.equal(i.addcmul(i, i, value=2), i + 2 * i * i)
        for call in (lambda: i.add(i, alpha=0.5), lambda: i.clone().mul_(0.5)):
            with pytest.raises(RuntimeError):
                call()


def test_enable__given_memory_is_checked_before_it_is_written() -> None:
    x, kept = values(3).requires_grad_(), torch.full((3,), 7.0)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: torch.mul(x, 2, out=kept), "mul.*don't support automatic differentiation"),
        (lambda: torch.stack([x, x], out=torch.empty(2, 3)), "don't support automatic differentiation"),
        (lambda: torch.mul(kept, 2, out=kept.clone().requires_grad_()), "don't support automatic differentiation"),
        (lambda: torch.mul(kept, 0.5, out=torch.zeros(5, dtype=torch.int64)), "result type .* can't be cast"),
        (lambda: torch.sort(kept, out=(kept, torch.zeros(3, dtype=torch.bool))), "result type .* can't be cast"),
    ]
    with repdl.enabled():
        for call, message in calls:
            with pytest.raises(RuntimeError, match=message):
                call()
        assert kept.tolist() == [7, 7, 7]
        with torch.no_grad():
            assert same(torch.mul(x, 2, out=torch.empty(3)), ops.mul(x.detach(), 2))
        assert torch.mul(kept, 2, out=torch.empty(3, dtype=torch.float64)).tolist() == [14, 14, 14]


def test_enable__lists_of_tensors_are_as_long_as_each_other() -> None:
    x = [values(2), values(3)]
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: torch._foreach_add(x, x[:1]), "Tensor lists must have the same number of tensors, got 2 and 1"),
        (lambda: torch._foreach_mul_(x, [0.5]), "the same number of elements, got 2 and 1"),
        (lambda: torch._foreach_addcdiv(x, x, x, [1.0]), "the same number of elements, got 2 and 1"),
        (lambda: torch._foreach_addcdiv(x, x, x, torch.ones(3)), "the same number of elements, got 2 and 3"),
        (lambda: torch._foreach_lerp(x, x, x[:1]), "Tensor lists must have the same number of tensors, got 2 and 1"),
        (lambda: torch._foreach_add([], 1.0), "Tensor list must have at least one tensor"),
    ]
    kept = [t.clone() for t in x]
    with repdl.enabled():
        for call, message in calls:
            with pytest.raises(RuntimeError, match=message):
                call()
        assert all(map(same, x, kept))
        assert same(torch._foreach_pow(2.0, x)[1], ops.pow(2.0, x[1]))
        scaled = torch._foreach_addcdiv(x, x, x, torch.tensor([1.0, 2.0]))
        assert same(scaled[1], ops.addcdiv(x[1], x[1], x[1], value=2.0))


def test_enable__size_and_factors_of_interpolation_agree() -> None:
    x = values(1, 2, 4, 5)
    with repdl.enabled():
        found = torch.ops.aten.upsample_nearest2d(x, [6, 7], 1.5, 1.5)
        assert same(found, ops.interpolate(x, scale_factor=1.5))
        with pytest.raises(UnsupportedError, match=r"output_size is \[6, 8\], expected \[6, 7\]"):
            torch.ops.aten.upsample_nearest2d(x, [6, 8], 1.5, 1.5)
        with pytest.raises(UnsupportedError, match="output_size"):
            torch.ops.aten.upsample_bilinear2d(x, [9, 7], False, 1.5, 1.5)


def test_enable__a_block_that_cannot_begin_leaves_the_outer_one() -> None:
    with repdl.enabled(contract="sequential"):
        for arguments, error in (({"contract": "none"}, ContractError), ({"on_uncovered": "ignore"}, ArgumentError)):
            with pytest.raises(error):
                repdl.enable(**arguments)
            with pytest.raises(error), repdl.enabled(**arguments):
                pass
        assert str(repdl.get_contract()) == "sequential"
        with pytest.raises(UnsupportedError):
            torch.ones(2).lgamma()
    torch.ones(2).lgamma()


def test_enable__a_session_that_fails_leaves_the_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(1000)
    with repdl.enabled(contract="sequential"):

        class Failing(switch._Session):
            def _put_new(self) -> None:
                super()._put_new()
                if self.on_uncovered == "warn":
                    raise MemoryError

        monkeypatch.setattr(switch, "_Session", Failing)
        with pytest.raises(MemoryError):
            repdl.enable("v1", on_uncovered="warn")
        assert same(x.sum(), ops.sum(x, contract="sequential"))
        with pytest.raises(UnsupportedError):
            x.lgamma()
    x.lgamma()


def test_enable__blocks_of_threads_overlap() -> None:
    entered, leave = threading.Event(), threading.Event()

    def run() -> None:
        with repdl.enabled(contract="sequential", on_uncovered="warn"):
            entered.set()
            leave.wait()

    before, thread = repdl.get_contract(), threading.Thread(target=run)
    with repdl.enabled():
        thread.start()
        entered.wait()
        assert str(repdl.get_contract()) == "sequential"
        with pytest.warns(UserWarning, match="lgamma"):
            torch.ones(2).lgamma()
    with pytest.warns(UserWarning, match="lgamma"):
        torch.ones(2).lgamma()  # the other block is still open
    leave.set()
    thread.join()
    torch.ones(2).lgamma()
    assert repdl.get_contract() == before


def test_enable__an_earlier_block_that_ends_first() -> None:
    first, second = repdl.enabled(contract="sequential"), repdl.enabled(contract="dot_chunk=2,sum_lanes=2,sum_block=2")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert repdl.get_contract().dot_chunk == 2
    with pytest.raises(UnsupportedError):
        torch.ones(2).lgamma()
    second.__exit__(None, None, None)
    assert str(repdl.get_contract()) == "v1"
    torch.ones(2).lgamma()


def test_enable__disable_ends_every_block() -> None:
    repdl.enable("sequential")
    with repdl.enabled():
        repdl.enable(on_uncovered="warn")
        repdl.disable()
        torch.ones(2).lgamma()
        assert str(repdl.get_contract()) == "v1"
    torch.ones(2).lgamma()


def test_enable__the_default_contract_is_not_that_of_a_scope() -> None:
    with repdl.use_contract("sequential"):
        repdl.enable()
        repdl.disable()
    assert str(repdl.get_contract()) == "v1"


def test_enable__inner_blocks_have_the_contract_that_is_set() -> None:
    with repdl.enabled(contract="sequential"):
        with repdl.enabled():
            assert str(repdl.get_contract()) == "sequential"
        repdl.set_contract("v1")
        with repdl.enabled(contract="sequential"):
            pass
        assert str(repdl.get_contract()) == "v1"


def test_enable__ops_that_python_registers_later_are_refused() -> None:
    x = values(3)
    with torch.library._scoped_library("repdl_tests", "FRAGMENT") as library, repdl.enabled():

        @torch.library.custom_op("repdl_tests::doubled", mutates_args=())
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        library.define("tripled(Tensor x) -> Tensor")
        library.impl("tripled", lambda x: x * 3, "CPU")
        library.define("composed(Tensor x) -> Tensor")
        library.impl("composed", lambda x: x * 4, "CompositeImplicitAutograd")
        for op in (torch.ops.repdl_tests.doubled, torch.ops.repdl_tests.tripled, doubled):
            with pytest.raises(UnsupportedError, match="repdl_tests"):
                op(x)
        library.impl("tripled", lambda x: x * 5, "CPU")  # again, on top of the refusal
        with pytest.raises(UnsupportedError, match="repdl_tests.tripled"):
            torch.ops.repdl_tests.tripled(x)
        assert same(torch.ops.repdl_tests.composed(x), ops.mul(x, 4))
        repdl.disable()
        with repdl.enabled(on_uncovered="warn"):
            library.impl("tripled", lambda x: x * 5, "CPU")
            with pytest.warns(UserWarning, match="repdl_tests.tripled"):
                assert same(torch.ops.repdl_tests.tripled(x), ops.mul(x, 5))
        assert torch.equal(torch.ops.repdl_tests.doubled(x), x * 2)
        assert torch.equal(torch.ops.repdl_tests.tripled(x), x * 5)


def test_enable__kernels_that_python_puts_over_ours_wait() -> None:
    x = values(1000)
    with torch.library._scoped_library("aten", "IMPL") as library:
        with repdl.enabled():
            library.impl("sum", lambda x, dtype=None: x.new_zeros(()), "CPU")
            assert same(x.sum(), ops.sum(x))
        assert x.sum() == 0


WORKERS = """
import sys
import torch
import repdl
from torch.utils.data import DataLoader, Dataset


class Sums(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        try:
            return torch.ones(2).lgamma()
        except repdl.errors.UnsupportedError:
            return repdl.get_contract(), torch.linspace(0, 1, 1000).sum()


if __name__ == "__main__":
    x = torch.linspace(0, 1, 1000)
    loader = DataLoader(Sums(), num_workers=1, batch_size=None, multiprocessing_context=sys.argv[1])
    with repdl.enabled(contract="sequential"):
        ((contract, total),) = list(loader)
        assert str(contract) == "sequential"
        assert torch.equal(total, torch.linspace(0, 1, 1000).sum())
    (found,) = list(loader)
    assert torch.is_tensor(found), found  # torch's lgamma
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_enable__workers_are_enabled(tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    (tmp_path / "program.py").write_text(WORKERS)
    command = [sys.executable, "program.py", method]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


LOADS = """
import sys
import torch
import repdl
x = torch.ones(2)
repdl.enable()
if sys.argv[1] == "torch":
    torch.ops.load_library(sys.argv[2])
elif sys.argv[1] == "ctypes":
    import ctypes
    ctypes.CDLL(sys.argv[2])
else:  # as a module of Python, whose code registers the ops before it is found to be none
    from importlib.machinery import ExtensionFileLoader, ModuleSpec
    loader = ExtensionFileLoader("libaoti_custom_ops", sys.argv[2])
    try:
        loader.create_module(ModuleSpec("libaoti_custom_ops", loader, origin=sys.argv[2]))
    except ImportError:
        pass
    loader.exec_module(sys)
try:
    torch.ops.aoti_custom_ops.custom_add(x, x)
except repdl.errors.UnsupportedError as error:
    assert "aoti_custom_ops.custom_add" in str(error)
    repdl.disable()
    print(torch.ops.aoti_custom_ops.custom_add(x, x).tolist())
"""


@pytest.mark.parametrize("way", ["torch", "ctypes", "module"])
def test_enable__ops_of_libraries_that_are_loaded_later_are_refused(tmp_path: Path, way: str) -> None:
    library = Path(torch.__file__).parent / "lib/libaoti_custom_ops.so"
    if not library.exists():
        pytest.skip("this torch has no library of ops that it does not load")
    command = [sys.executable, "-c", LOADS, way, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr
