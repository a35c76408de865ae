"""The check of a converted model's first calls: what it finds, when it is over, and that it leaves nothing."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F
from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint

import repdl
from repdl.errors import UnsupportedError
from repdl.nn.first_calls import FirstCalls

x = torch.linspace(-2, 2, 16).view(4, 4)


class Model(torch.nn.Module):
    """A layer, and what a function makes of the result."""

    def __init__(self, own: Callable[[Model, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.act, self.own = torch.nn.Linear(4, 4), torch.nn.ReLU(), own

    def forward(self, x: torch.Tensor) -> Any:
        return self.own(self, self.layer(x))


class Outer(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(inner)

    def forward(self, x: torch.Tensor) -> Any:
        return self.blocks(x)


class Product(torch.autograd.Function):
    """Whose backward alone is torch's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(w)
        return repdl.ops.mm(x, w)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (w,) = ctx.saved_tensors
        return torch.mm(grad, w.t()), None


def fine(model: Model, q: torch.Tensor) -> torch.Tensor:
    return model.act(q) + q


def products(model: Model, q: torch.Tensor) -> torch.Tensor:
    scores = q @ q.T
    return F.softmax(scores, -1)


def mean(model: Model, q: torch.Tensor) -> torch.Tensor:
    return q.mean()


def dropout(model: Model, q: torch.Tensor) -> torch.Tensor:
    return F.dropout(q, 0.5, model.training)


def scaled(model: Model, q: torch.Tensor) -> torch.Tensor:
    return q * model.layer.bias


def converted(own: Callable[[Model, torch.Tensor], Any], strict: bool = True) -> Model:
    return repdl.from_torch_module(Model(own), strict=strict)


def check_of(model: torch.nn.Module) -> FirstCalls:
    (check,) = {hook.__self__ for hook in model._forward_pre_hooks.values()}
    assert isinstance(check, FirstCalls)
    return check


def finished(model: torch.nn.Module) -> set[tuple[bool, bool]]:
    """The modes of the calls whose check is over: training or not, gradients enabled or not."""
    return {(kind[0], kind[1]) for kind in check_of(model)._finished}


def step(model: torch.nn.Module) -> None:
    output = model(x)
    output.backward(torch.ones_like(output))


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UnsupportedError) as caught:
        call()
    assert _get_current_dispatch_mode() is None and _get_current_function_mode() is None
    return str(caught.value)


def line_of(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (number,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"test_nn_first_calls.py:{number} `"


# What it finds.


def test_check__forward_all_at_once_with_op_module_and_line() -> None:
    text = refusal(lambda: repdl.from_torch_module(Outer(Model(products)))(x))
    first, second = [line for line in text.splitlines() if line.startswith("  aten.")]
    assert "aten.mm.default in blocks.0, " in first and line_of(products, "q @ q.T") in first
    assert "use repdl.ops.mm" in first
    assert "aten._softmax.default in blocks.0, " in second and line_of(products, "F.softmax") in second
    assert "use repdl.ops.softmax" in second and "2 ops are not reproducible" in text


def test_check__blocks_alike_share_a_line() -> None:
    blocks = torch.nn.Sequential(*(Model(products) for _ in range(3)))
    text = refusal(lambda: repdl.from_torch_module(blocks)(x))
    first, second = [line for line in text.splitlines() if line.startswith("  aten.")]
    assert "aten.mm.default (3 times) in 0 and 2 other modules, " in first and "2 ops are not" in text
    assert "aten._softmax.default (3 times) in 0 and 2 other modules, " in second


@pytest.mark.parametrize(
    ("own", "op", "text"),
    [(mean, "aten.mean.default", "q.mean()"), (dropout, "aten.bernoulli_.float", "F.dropout")],
)
def test_check__forward(own: Any, op: str, text: str) -> None:
    found = refusal(lambda: converted(own)(x))
    assert op in found and line_of(own, text) in found and "training mode" in found


def test_check__each_mode() -> None:
    """Dropout is nothing in eval mode, and is found when the model trains."""
    model = converted(dropout).eval()
    with torch.no_grad():
        model(x)
    step(model)
    assert finished(model) == {(False, False), (False, True)}
    assert "aten.bernoulli_" in refusal(lambda: model.train()(x))
    assert "aten.bernoulli_" in refusal(lambda: model(x)), "not once only"
    with torch.no_grad():
        refusal(lambda: model(x))


class Branches(torch.nn.Module):
    """A forward with a branch that is torch's own, which some arguments take."""

    def __init__(self, takes: Callable[..., bool]) -> None:
        super().__init__()
        self.layer, self.takes = torch.nn.Linear(4, 4), takes

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        h = self.layer(args[0].float())
        return F.softmax(h, -1) if self.takes(*args, **kwargs) else h


def test_check__branches_that_a_later_call_takes() -> None:
    """A call whose arguments are of another kind is a first call, too."""
    cases: list[tuple[Callable[..., bool], tuple[Any, ...], dict[str, Any]]] = [
        (lambda x, flag=False: flag, (x, True), {}),
        (lambda x, flag=False: flag, (x,), {"flag": True}),
        (lambda x, how="": how == "probabilities", (x,), {"how": "probabilities"}),
        (lambda x, past=None: past is not None, (x, x), {}),
        (lambda x, past=None: past is not None, (x,), {"past": [(x, x)]}),
        (lambda x: len(x) == 1, (x[:1],), {}),
        (lambda x: x.dim() == 3, (x[None],), {}),
        (lambda x: x.dtype is torch.bfloat16, (x.bfloat16(),), {}),
        (lambda x: x.requires_grad, (x.clone().requires_grad_(),), {}),
    ]
    for takes, args, kwargs in cases:
        model = repdl.from_torch_module(Branches(takes))
        for _ in range(2):
            model(x).sum().backward()
        assert "_softmax" in refusal(lambda: model(*args, **kwargs))

    model = repdl.from_torch_module(Branches(lambda x: torch.is_autocast_enabled("cpu")))
    model(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert "_softmax" in refusal(lambda: model(x))


@dataclasses.dataclass(frozen=True)
class Batch:
    __slots__ = ("mask", "x")
    x: torch.Tensor
    mask: torch.Tensor | None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_check__arguments_of_any_kind() -> None:
    model = repdl.from_torch_module(Branches(lambda x, batch: isinstance(batch, Batch) and batch.mask is not None))
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for batch in (
        Batch(x, None),
        Batch,
        nested,
        nested.layout,
        {1: [x]},
        [x] * 100,
        torch.ones(0),
        object(),
        x.to_sparse(),
    ):
        model(x, batch)
        model(x, batch)
    assert "_softmax" in refusal(lambda: model(x, Batch(x, x)))


def test_check__kinds_of_calls_are_few() -> None:
    """Other sizes and numbers are no other kind, and what is called with ever new strings is not watched forever."""
    model = repdl.from_torch_module(Branches(lambda x, *_: False))
    for size in range(2, 9):
        model(torch.ones(size, 4), size, float(size)).sum().backward()
    assert len(check_of(model)._finished) == 1
    for name in range(100):
        model(x, str(name))
    assert len(check_of(model)._watches) == 64


def test_check__backward_alone() -> None:
    def product(model: Model, q: torch.Tensor) -> torch.Tensor:
        return Product.apply(q, model.layer.weight)  # type: ignore[no-any-return]

    found = refusal(lambda: step(repdl.from_torch_module(Outer(Model(product)))))
    assert "aten.mm.default in blocks.0, " in found and line_of(Product.backward, "torch.mm") in found
    assert "in the backward pass" in found and "ProductBackward" in found


def test_check__backward_of_torchs_own_function() -> None:
    """Its line is that of the forward."""
    model = converted(scaled)
    output = model(x)
    found = refusal(lambda: output.sum().backward())
    assert "aten.sum.dim_IntList" in found and line_of(scaled, "q * model") in found and "use repdl.ops.mul" in found
    assert finished(model) == set()


def test_check__backward_of_a_later_call() -> None:
    """The first call was for nothing but its value."""
    model = converted(scaled)
    model(x)
    model(x + 1)
    found = refusal(lambda: step(model))
    assert line_of(scaled, "q * model") in found


def test_check__backward_to_some_leaves() -> None:
    """As of a gradient penalty: it is watched, and so is the first pass to all leaves."""
    model = converted(scaled)
    for _ in range(2):
        torch.autograd.grad(model(x).sum(), model.layer.weight)
    model(x).sum().backward(inputs=[model.layer.weight])
    assert finished(model) == set()
    assert "aten.sum" in refusal(lambda: step(model))
    other = converted(scaled)
    assert "aten.sum" in refusal(lambda: torch.autograd.grad(other(x).sum(), list(other.parameters())))


def test_check__second_derivatives() -> None:
    class Square(torch.autograd.Function):
        """Whose derivative has a derivative of torch's."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return repdl.ops.square(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return repdl.ops.mul(Exponential.apply(x), grad)

    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return repdl.ops.exp(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return torch.exp(grad)

    model = converted(lambda model, q: Square.apply(q))
    (grad,) = torch.autograd.grad(model(x).sum(), model.layer.weight, create_graph=True)
    found = refusal(lambda: grad.sum().backward())
    assert "aten.exp.default" in found and line_of(Exponential.backward, "torch.exp") in found
    step(converted(lambda model, q: Square.apply(q)))


def test_check__results_in_containers_and_beside_the_result() -> None:
    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor

    wrap: list[Callable[[Model, torch.Tensor], Any]] = [
        lambda model, q: {"first": [q], "second": (scaled(model, q),)},
        lambda model, q: Output(scaled(model, q)),
        lambda model, q: setattr(model, "extra", scaled(model, q)),  # an auxiliary loss that a model keeps
    ]
    read: list[Callable[[Model, Any], torch.Tensor]] = [
        lambda model, out: out["second"][0], lambda model, out: out.loss, lambda model, out: model.extra,
    ]  # fmt: skip
    for own, get in zip(wrap, read):
        model = converted(own)
        output = get(model, model(x))
        assert "aten.sum.dim_IntList" in refusal(lambda: output.sum().backward())


def test_check__hooks_of_the_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    assert not repdl.from_torch_module(model[0])._forward_pre_hooks, "a layer alone has nothing to check"
    later = repdl.from_torch_module(model)
    later[0].register_forward_hook(lambda module, args, output: output.softmax(-1))
    assert "aten._softmax.default in 0" in refusal(lambda: later(x))
    model[0].register_forward_hook(lambda module, args, output: output.exp())
    assert "aten.exp.default in 0, " in refusal(lambda: repdl.from_torch_module(model)(x))


def test_check__hooks_of_tensors() -> None:
    """Autograd calls them before those of nodes."""

    def scaled_gradient(model: Model, q: torch.Tensor) -> torch.Tensor:
        q.register_hook(lambda gradient: gradient / gradient.norm())
        return model.act(q)

    def clip(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.clamp_(-1, 1)

    model = converted(scaled_gradient)
    output = model(x)
    found = refusal(lambda: output.sum().backward())
    assert (
        "backward pass" in found and "aten.linalg_vector_norm" in found and line_of(scaled_gradient, "norm()") in found
    )

    hooks: list[tuple[str, Callable[[torch.Tensor], Any]]] = [
        ("register_hook", lambda gradient: gradient.clamp(-1, 1)),
        ("register_post_accumulate_grad_hook", clip),
        ("register_hook", lambda gradient: gradient * 0.5),
    ]
    for name, hook in hooks:
        model = converted(fine)
        getattr(model.layer.bias, name)(hook)
        registered = model.layer.bias._backward_hooks or model.layer.bias._post_accumulate_grad_hooks
        output = model(x)
        if hook is hooks[-1][1]:
            output.sum().backward()
            step(model)
        else:
            assert "aten.clamp" in refusal(lambda: output.sum().backward())
        assert registered is not None and [*registered.values()] == [hook]


def test_check__a_layer_of_ones_own() -> None:
    class Own(repdl.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.tanh(super().forward(input))

    assert "aten.tanh.default, " in refusal(lambda: repdl.from_torch_module(Own(4, 4))(x))


@pytest.mark.filterwarnings("ignore:the loss")
def test_check__what_is_before_and_after_the_model_is_not_its_own() -> None:
    model, scale = converted(fine), torch.ones(4, requires_grad=True)
    (model(x.exp() * scale) * scale).mean().backward()
    assert finished(model) == {(True, True)} and scale.grad is not None
    first, second = converted(fine), converted(scaled)
    assert "Model, converted" in refusal(lambda: second(first(x)).sum().backward())
    assert finished(first) <= {(True, True)} and finished(second) == set()


def test_check__loss_of_torch_is_a_warning() -> None:
    """What a training loop computes of the results is no part of the model, and decides what is trained."""
    labels, scale = torch.tensor([0, 1, 2, 3]), torch.ones(4, requires_grad=True)
    ops = repdl.ops
    losses: list[tuple[Callable[[torch.Tensor], torch.Tensor], str]] = [
        (lambda y: F.cross_entropy(y, labels), "torch's log_softmax, nll_loss have"),
        (lambda y: ops.sum(F.relu(y)) + y.mean(), "torch's mean, relu have"),
        (lambda y: ops.mean(y * scale), "torch's mul has"),
        (lambda y: ops.sum(y.gather(1, labels[:, None])), "torch's gather has"),
        (lambda y: (y**3).sum().log(), "torch's log, pow, sum have"),
    ]
    for own in (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), Model(fine)):
        for loss, text in losses:
            model = repdl.from_torch_module(own)
            with pytest.warns(UserWarning, match=f"the loss .* of {type(own).__name__}, .*{text}") as caught:
                loss(model(x)).backward()
            assert caught[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loss(model(x)).backward()


def test_check__losses_that_are_fine() -> None:
    """A sum, whose derivative is exact, single roundings, masks, and what torch computed before the model."""
    labels, before = torch.tensor([0, 1, 2, 3]), torch.nn.Linear(4, 4)
    losses: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda y: y.sum(),
        lambda y: repdl.ops.cross_entropy(y / 2 + y * y, labels) * 0.5,
        lambda y: repdl.ops.sum((y[y > 0] - 1) ** 2),
        lambda y: repdl.ops.sum(torch.cat([y, y.t()]).reshape(8, 4)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in losses:
            loss(converted(fine)(before(x))).backward()


def test_check__not_strict() -> None:
    model = converted(lambda model, q: scaled(model, q) + q.mean(), strict=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        output = model(x)
        assert len(caught) == 1
        output.sum().backward()
        step(model)
    for warning, part in zip(caught, ("forward", "backward"), strict=True):
        assert f"in the {part} pass" in str(warning.message) and warning.filename == __file__
    assert finished(model) == {(True, True)}


def test_check__layers_that_were_left_as_they_are() -> None:
    class Computed(torch.nn.Linear):
        weight = property(lambda self: torch.ones(4, 4))

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.bias = torch.nn.Parameter(torch.ones(4))

    with pytest.warns(UserWarning, match="can't be converted"):
        model = repdl.from_torch_module(torch.nn.Sequential(torch.nn.Linear(4, 4), Computed()), strict=False)
    with pytest.warns(UserWarning, match=r"not reproducible:\n  aten\.addmm.* in 1, "):
        model(x)


# What it leaves.


def test_check__changes_no_bit() -> None:
    models = [converted(lambda model, q: repdl.ops.dropout(model.act(q) + q)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1]._forward_pre_hooks.clear()
    found = []
    for model in models:
        repdl.random.default_generator.manual_seed(0)
        for _ in range(2):
            output = model(x)
            output.sum().backward()
        found.append(repdl.digest({"output": output.detach(), "grad": model.layer.weight.grad}))
    assert found[0] == found[1]
    assert finished(models[0]) == {(True, True)}


def test_check__is_gone_after_the_first_calls() -> None:
    model = converted(fine)
    keys = list(model.state_dict())
    step(model)
    with torch.no_grad():
        model(x)
    step(model)
    assert finished(model) == {(True, True), (True, False)}
    assert not model._forward_hooks and len(model._forward_pre_hooks) == 1 and list(model.state_dict()) == keys
    assert not model(x).grad_fn.metadata  # type: ignore[union-attr]
    assert type(model) is Model


def test_check__keeps_no_graph_alive() -> None:
    class Kept:
        pass

    model, references = converted(fine), []
    for _ in range(3):
        output, kept = model(x), Kept()
        output.grad_fn.metadata["kept"] = kept
        references.append(weakref.ref(kept))
        del output, kept
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_check__after_an_exception_and_an_interrupt() -> None:
    for error in (ValueError, KeyboardInterrupt):
        model = converted(fine)

        def fail(*args: Any) -> None:
            raise error

        handle = model.act.register_forward_hook(fail)
        with pytest.raises(error):
            model(x)
        handle.remove()
        assert finished(model) == set()
        step(model)  # which takes away what an interrupt has left: no hook is called then
        assert finished(model) == {(True, True)} and _get_current_dispatch_mode() is None


def test_check__after_an_exception_in_a_backward_pass() -> None:
    model = converted(fine)

    def fail(grad: torch.Tensor) -> None:
        raise ValueError

    output = model(x)
    handle = model.layer.weight.register_hook(fail)
    with pytest.raises(ValueError):
        output.sum().backward(retain_graph=True)
    handle.remove()
    assert finished(model) == set() and _get_current_dispatch_mode() is None
    output.sum().backward()
    assert finished(model) == {(True, True)} and _get_current_dispatch_mode() is None


def test_check__copies_begin_anew() -> None:
    model = converted(mean)
    made = converted(fine)
    step(made)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(converted(products_by_name)))):
        assert finished(copied) == set() and check_of(copied) is not check_of(made)
    refusal(lambda: pickle.loads(pickle.dumps(model))(x))
    waiting = converted(scaled)
    waiting(x)
    twin = copy.deepcopy(waiting)
    assert "aten.sum" in refusal(lambda: step(twin))
    assert "aten.sum" in refusal(lambda: step(waiting))
    inside = repdl.from_torch_module(Outer(made))
    assert not inside.blocks[0]._forward_pre_hooks and finished(inside) == set()
    step(inside)


def products_by_name(model: Model, q: torch.Tensor) -> torch.Tensor:
    return products(model, q)


def test_check__threads_and_replicas() -> None:
    """Replicas share the hooks of a model, as torch.nn.DataParallel makes them."""
    model = converted(fine)
    replicas = [model._replicate_for_data_parallel() for _ in range(3)]
    errors: list[BaseException] = []

    def run(replica: torch.nn.Module) -> None:
        try:
            for _ in range(20):
                step(replica)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(r,)) for r in (*replicas, model)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and finished(model) == {(True, True)}
    found = []
    bad = converted(mean)
    thread = threading.Thread(target=lambda: found.append(refusal(lambda: bad(x))))
    thread.start()
    thread.join()
    assert "aten.mean.default" in found[0]


# torch's other ways to call a model.


@pytest.mark.parametrize("reentrant", [False, True])
def test_check__checkpoint(reentrant: bool) -> None:
    def again(part: Any) -> Callable[[Model, torch.Tensor], Any]:
        return lambda model, q: checkpoint(lambda q: part(model, q), q, use_reentrant=reentrant)

    model = converted(again(fine))
    step(model)
    assert finished(model) == {(True, True)}
    assert line_of(scaled, "q * model") in refusal(lambda: step(converted(again(scaled))))
    outside = converted(scaled)
    given = x.clone().requires_grad_()
    refusal(lambda: checkpoint(outside, given, use_reentrant=reentrant).sum().backward())


def test_check__torch_func() -> None:
    def loss(model: torch.nn.Module) -> Callable[[dict[str, Any]], torch.Tensor]:
        return lambda parameters: torch.func.functional_call(model, parameters, (x,)).sum()

    model, bad = converted(fine), converted(scaled)
    expected = torch.autograd.grad(model(x).sum(), model.layer.weight)[0]
    again = copy.deepcopy(model)
    parameters = {name: p.detach() for name, p in again.named_parameters()}
    assert torch.equal(torch.func.grad(loss(again))(parameters)["layer.weight"], expected)
    assert {kind[:2] for kind in check_of(again)._partly} == {(True, True)}
    assert "aten.sum" in refusal(lambda: torch.func.grad(loss(bad))(dict(bad.named_parameters())))
    assert torch.equal(torch.func.vmap(converted(fine))(x.expand(2, 4, 4))[0].isnan(), x.isnan())


def test_check__compiled() -> None:
    """Nothing is watched there: a warning says so, unless the model was called before."""
    model = converted(fine)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with pytest.warns(UserWarning, match="compiled before its first call in training mode"):
        output = compiled(x)
    assert finished(model) == set()
    assert torch.equal(output, model(x))
    step(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compiler.reset()
        torch.compile(model, backend="eager", fullgraph=True)(x).sum().backward()
    torch.compiler.reset()


def test_check__compiled_with_halves() -> None:
    """What is fused keeps float32 between two ops: other bits than without torch.compile."""
    for dtype in (torch.float32, torch.bfloat16):
        model = repdl.from_torch_module(Model(fine).to(dtype))
        model(x.to(dtype))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.compiler.reset()
            torch.compile(model, backend="eager")(x.to(dtype))
            with torch._inductor.config.patch(emulate_precision_casts=True):
                torch.compiler.reset()
                torch.compile(model, backend="eager")(x.to(dtype))
        assert ["halves" in str(warning.message) for warning in caught] == [True] * (dtype is torch.bfloat16)
    torch.compiler.reset()


def test_check__remedies_of_the_rest_of_a_step() -> None:
    """Functions of torch.nn.utils and optimizers have theirs in packages that repdl-core does not need."""
    optim = pytest.importorskip("repdl.optim")
    model = repdl.from_torch_module(torch.nn.Sequential(torch.nn.Linear(4, 4)))
    optimizers = [torch.optim.Adam(model.parameters()), torch.optim.Rprop(model.parameters())]
    remedies = ["repdl.optim.Adam", "repdl.optim.Rprop" if hasattr(optim, "Rprop") else None]

    def clip() -> None:
        step(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)

    assert {row.remedy for row in repdl.audit(clip).refused} == {"repdl.nn.utils.clip_grad_norm_"}
    for optimizer, remedy in zip(optimizers, remedies, strict=True):
        assert {row.remedy for row in repdl.audit(optimizer.step).refused} == {remedy}


def test_check__audit_of_a_converted_model() -> None:
    model = converted(products)
    report = repdl.audit(model, x)
    assert not report.ok and finished(model) == set()
    assert repdl.audit(converted(fine), x).ok
