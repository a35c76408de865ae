"""`torch.compile(backend="repdl")` while `repdl.enable()` holds: the bits of what is not compiled, or an error."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from enabling import same, values
from torch import nn
from torch._dynamo.utils import counters

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import uniform

Tensor = torch.Tensor
pytestmark = pytest.mark.filterwarnings("ignore:Profiler record function")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="repdl", **{"fullgraph": True, **options})


def graphs() -> int:
    return counters["aot_autograd"]["ok"]


class Words(nn.Module):
    """Sequences of seven words, read by a recurrent layer or by an encoder."""

    def __init__(self, reader: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.table, self.reader, self.head = nn.Embedding(30, 16), reader(), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        read = self.reader(self.table(x))
        return self.head((read[0] if isinstance(read, tuple) else read).mean(1))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "lenet": lambda: nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)),
    ),
    "mlp": lambda: nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10)),
    "lstm": lambda: Words(lambda: nn.LSTM(16, 16, batch_first=True)),
    "encoder": lambda: Words(encoder),
}
SIZES = (4, 2, 40, 7, 1)
"""Batch sizes that change from step to step."""


def batch(model: str, n: int) -> Tensor:
    if model in ("lenet", "mlp"):
        return uniform(n, n, *{"lenet": (1, 28, 28), "mlp": (20,)}[model])
    return (torch.arange(n * 7) * 5 % 30).view(n, 7)


def train(model: str, optimizer: str, what: str, dynamic: bool | None = None) -> tuple[str, str, list[float]]:
    """Digests of model and optimizer, and the losses, where the model or the whole step is compiled, or nothing."""
    torch.manual_seed(0)
    net = MODELS[model]()
    rule = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01)
    forward = compiled(net, dynamic=dynamic) if what == "model" else net

    def step(x: Tensor, y: Tensor) -> Tensor:
        rule.zero_grad()
        loss = F.cross_entropy(forward(x), y, label_smoothing=0.1)
        loss.backward()
        rule.step()
        return loss

    run = compiled(step, dynamic=dynamic, fullgraph=False) if what == "step" else step
    losses = [run(batch(model, n), torch.arange(n) % 10).item() for n in SIZES]
    return repdl.digest(net), repdl.digest(rule.state_dict()), losses


@cache
def expected(model: str, optimizer: str) -> tuple[str, str, list[float]]:
    return train(model, optimizer, "nothing")


EVERY = list(itertools.product(MODELS, ("SGD", "AdamW"), ("model", "step"), (False, True, None)))
SAMPLE = {
    ("lenet", "AdamW", "step", False),
    ("mlp", "AdamW", "model", True),
    ("mlp", "AdamW", "step", None),
    ("lstm", "SGD", "model", True),
    ("encoder", "AdamW", "model", None),
}


@pytest.mark.parametrize(
    ("model", "optimizer", "what", "dynamic"),
    [pytest.param(*one, marks=[] if one in SAMPLE else pytest.mark.nightly) for one in EVERY],
)
def test_compiling__trains_to_the_same_bits(model: str, optimizer: str, what: str, dynamic: bool | None) -> None:
    with repdl.enabled():
        wanted = expected(model, optimizer)
        assert train(model, optimizer, what, dynamic) == wanted
    assert graphs() > 0


def with_hook(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    return y * y


def in_parts(x: Tensor) -> Tensor:
    y = x.clone()
    y[1].mul_(3)
    y[:, 2].add_(y[:, 1])
    y[0] += 1
    return y.relu_().t()


def under_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, x).float()


def lists(x: Tensor) -> Tensor:
    given = [x.clone(), x + 1]
    torch._foreach_lerp_(given, [x + 3, x], 0.1)
    return given[0] + torch._foreach_pow(0.3, given)[1]


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": lambda x: x * torch.rand(5, 7) + torch.randn(7),
    "rand_like": lambda x: x * torch.rand_like(x) + torch.randn_like(x),
    "several draws": lambda x: F.dropout(x) + torch.rand(5, 7) * F.dropout(x, 0.3),
    "a draw that nothing takes": lambda x: (torch.rand(3), F.dropout(x), x * 2)[2],
    "normal_": lambda x: x + torch.empty(5, 7).normal_().mul_(2),
    "randperm": lambda x: x[torch.randperm(5)],
    "randint": lambda x: x + torch.randint(0, 9, (7,)),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "rrelu": lambda x: F.rrelu(x, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda t: F.dropout(t * t.exp()), x, use_reentrant=False),
    "kaiming_uniform_": lambda x: x @ nn.init.kaiming_uniform_(torch.empty(7, 3)),
    "addcdiv": lambda x: torch.addcdiv(x, x, x + 3, value=0.1),
    "addcdiv_": lambda x: x.clone().addcdiv_(x, x + 3, value=0.1),
    "addcmul_": lambda x: x.clone().addcmul_(x, x + 3, value=0.1),
    "add_": lambda x: x.clone().add_(x + 3, alpha=0.1),
    "lists": lists,
    "parts in place": in_parts,
    "a tensor used often": lambda x: (x @ x.t()).softmax(1) @ x + x * x.sum() + x.mean(0),
    "equal indices": lambda x: x.clone().index_put_((torch.tensor([1, 1, 2]),), x[:3], accumulate=True),
    "integers": lambda x: (x * 10).to(torch.int32).float() + x,
    "halves": lambda x: (x.bfloat16() @ x.t().bfloat16()).float() * 0.1,
    "autocast": under_autocast,
    "vmap": lambda x: torch.vmap(lambda row: row.sum() * row)(x),
    "hook": with_hook,
    "clipping": lambda x: nn.utils.clip_grad_norm_([x], 0.1) * x,
    "a constant that is returned": lambda x: torch.ones(()) * 2.5 + 0 * x.sum(),
    "item": lambda x: x * x.sum().item(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiling__same_values_gradients_and_later_draws(name: str) -> None:
    function, found = FUNCTIONS[name], []
    with repdl.enabled():
        for call in (function, compiled(function, fullgraph=name != "item")):
            torch.manual_seed(3)
            x = uniform(1, 5, 7).requires_grad_()
            outputs = [call(x) for _ in range(3)]
            for output in outputs:
                output.sum().backward()
            assert x.grad is not None
            found.append([*(output.detach() for output in outputs), x.grad, torch.rand(3)])
    assert all(map(same, *found)) and graphs() > 0


def test_compiling__a_constant_that_is_changed_by_the_caller() -> None:
    with repdl.enabled():
        function = compiled(lambda x: (x * 2, torch.ones(()) * 2.5))
        for _ in range(2):
            _, constant = function(values(3))
            assert constant.item() == 2.5
            constant.zero_()


@pytest.mark.filterwarnings("ignore")
def test_compiling__steps_of_optimizers_are_not() -> None:
    """Their Python takes other formulas while it is traced, also where the step is called by another name."""

    def states(wrap: Callable[[Any], Any]) -> str:
        weight = nn.Parameter(values(40))
        rule = torch.optim.AdamW([weight], lr=0.1)
        advance = rule.step
        run = wrap(lambda x: (weight.square() * x).sum().backward() or advance())
        for i in range(3):
            run(values(40) + i)
        return repdl.digest(rule.state_dict()) + repdl.digest({"weight": weight})

    with repdl.enabled():
        assert states(lambda f: compiled(f, fullgraph=False)) == states(lambda f: f)
        weight = nn.Parameter(values(3))
        weight.grad = values(3)
        rule = torch.optim.SGD([weight])

        def step(x: Tensor) -> Tensor:
            rule.step()
            return x * 2

        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(step)(values(3))


class Refused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Identity(), nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.lgamma(self.inner(x))


def test_compiling__refuses_what_is_not_reproducible() -> None:
    with repdl.enabled():
        model = compiled(nn.Sequential(nn.Identity(), Refused()))
        for _ in range(2):
            with pytest.raises(UnsupportedError) as raised:
                model(values(3, 3))
    message = str(raised.value)
    line = Refused.forward.__code__.co_firstlineno + 1
    assert message.startswith('torch.compile(backend="repdl"): not reproducible: aten.lgamma.default in 1, ')
    assert f"test_compiling.py:{line} `return torch.lgamma(self.inner(x))`" in message


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.lgamma()


def test_compiling__refuses_a_derivative_in_the_forward_call() -> None:
    with repdl.enabled(), pytest.raises(UnsupportedError, match="aten.lgamma.default"):
        compiled(lambda x: Cubed.apply(x))(values(3).requires_grad_())


def test_compiling__warns_if_asked_to() -> None:
    x = values(3).abs()
    expected = r"not reproducible: aten.lgamma.*test_compiling.py"
    with repdl.enabled(on_uncovered="warn"), pytest.warns(UserWarning, match=expected):
        found = compiled(lambda x: x.lgamma() * 1)(x)
    assert same(found, x.lgamma())


def test_compiling__warns_of_an_op_once() -> None:
    """Where the program calls it, and not where the graph does."""
    x = values(3).abs().requires_grad_()
    function = compiled(lambda x: x.lgamma() * 2)
    with repdl.enabled(on_uncovered="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            function(x).sum().backward()
        said = [str(warning.message) for warning in caught]
        x.detach().lgamma()
    assert len(said) == 2 and all("torch.compile" in text and "test_compiling.py" in text for text in said)
    assert "aten.lgamma.default" in said[0] and "aten.digamma.default" in said[1]
    assert "test_compiling.py" in str(caught[-1].message) and len(caught) == 3  # not compiled: said where it is


def test_compiling__a_generator_of_its_own_is_no_silent_draw() -> None:
    def function(x: Tensor) -> Tensor:
        return x + torch.rand(7, generator=generator)

    found = []
    with repdl.enabled():
        with pytest.raises(torch._dynamo.exc.Unsupported, match="Generator"):
            generator = torch.Generator().manual_seed(3)
            compiled(function)(values(7))
        for call in (function, compiled(function, fullgraph=False)):
            generator = torch.Generator().manual_seed(3)
            found.append(torch.cat([call(values(7)), call(values(7))]))
    assert same(*found)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
def test_compiling__other_backends_run_uncompiled(backend: str) -> None:
    """With one warning; eager, which makes no code, without."""
    x = values(1000)
    function = torch.compile(lambda t: t.sum() * 3, backend=backend, fullgraph=True)
    if backend != "inductor":
        function(x)  # compiled before
    with repdl.enabled(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert same(function(x), ops.mul(ops.sum(x), 3))
    messages = [str(w.message) for w in caught if "torch.compile" in str(w.message)]
    assert len(messages) == (backend != "eager")
    assert not messages or (f"backend {backend} runs uncompiled" in messages[0] and '"repdl"' in messages[0])
    assert torch._dynamo.eval_frame._stance.stance == "default"


def test_compiling__other_backends_inside_of_compiled_code() -> None:
    x = values(1000)
    inner = torch.compile(lambda t: t.sum() * 3, backend="aot_eager")

    def function(t: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return torch._dynamo.disable(inner)(t) + 1

    with repdl.enabled():
        assert same(compiled(function, fullgraph=False)(x), ops.add(ops.mul(ops.sum(x), 3), 1))


def test_compiling__is_compiled_again_where_another_contract_holds() -> None:
    x = uniform(1, 1, 4097)
    function = compiled(lambda x: x.sum())
    wanted = {name: ops.sum(x, contract=name) for name in ("v1", "sequential")}
    assert not torch.equal(wanted["v1"], wanted["sequential"])
    for name in ("v1", "sequential", "v1"):
        with repdl.enabled(name):
            assert same(function(x), wanted[name]) and same(function(x), wanted[name])
            with repdl.use_contract("sequential"):
                assert same(function(x), wanted["sequential"])
    assert graphs() == 2


def test_compiling__is_compiled_again_after_disable() -> None:
    x = values(3, 3)
    function = compiled(lambda x: x @ x)
    for _ in range(2):
        with repdl.enabled():
            assert same(function(x), ops.matmul(x, x))
        with pytest.raises(UnsupportedError, match=r"aten.mm.default, .*`.*x @ x.*`.*; use repdl.ops.m"):
            function(x)


def test_compiling__refusals_name_what_the_program_calls() -> None:
    functional = "repdl.nn.functional" if find_spec("repdl.nn") else "repdl.ops"
    x = values(1, 4, 4)
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        f"{functional}.scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
        f"{functional}.logsigmoid": lambda x: F.logsigmoid(x),
        "repdl.ops.einsum": lambda x: torch.einsum("aij,ajk->aik", x, x),
        "repdl.ops.matmul": lambda x: x @ x,
    }
    for name, call in calls.items():
        with pytest.raises(UnsupportedError, match=rf"; use {re.escape(name)}$"):
            compiled(call)(x)
    with repdl.enabled(), pytest.raises(UnsupportedError, match=r"lgamma.*; with .*on_uncovered=\"warn\"\) this is a"):
        compiled(lambda x: x.lgamma())(x)


@pytest.mark.filterwarnings("ignore")
def test_compiling__gradients_over_several_graphs() -> None:
    """Those of a tensor that two graphs take, the earlier one once, are added in the order of what is not compiled."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        torch._dynamo.graph_break()
        return (y * w).tanh() @ w.t() * w.sum()

    found = []
    with repdl.enabled():
        for call in (function, compiled(function, fullgraph=False)):
            w = uniform(2, 7, 7).requires_grad_()
            call(uniform(1, 7, 7), w).sum().backward()
            found.append(w.grad)
    assert same(*found) and graphs() == 2


@pytest.mark.filterwarnings("ignore")
def test_compiling__torchs_python_forgets_where_kernels_were() -> None:
    """It keeps for each op which kernel it calls while it traces, and once called those that were gone."""
    x = values(3, 3).requires_grad_()

    def function(x: Tensor) -> Tensor:
        return (x.clone() @ x).tanh().sum()

    expected = function(x)
    for _ in range(2):
        torch._dynamo.reset()
        assert same(torch.compile(function, backend="aot_eager", fullgraph=True)(x), expected)
        with repdl.enabled():
            assert same(compiled(function)(x), ops.sum(ops.tanh(ops.matmul(x, x))))


def test_compiling__dynamo_is_left_as_it_was() -> None:
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    before = dict(TorchInGraphFunctionVariable._get_handlers()), torch._dynamo.eval_frame._callback_from_stance
    with repdl.enabled():
        assert torch._dynamo.eval_frame._callback_from_stance is not before[1]
    assert (TorchInGraphFunctionVariable._get_handlers(), torch._dynamo.eval_frame._callback_from_stance) == before
    x = values(40)
    step = torch.compile(lambda x: torch.addcdiv(x, x, x + 3, value=0.5), backend="eager", fullgraph=True)
    torch.testing.assert_close(step(x), torch.addcdiv(x, x, x + 3, value=0.5))
