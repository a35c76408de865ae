"""What calls of converted models leave: state, hooks, graphs and threads as they were."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest
import torch

import repdl
from repdl.overrides.torchs import ABOVE, BELOW, is_within
from watched import Model, Outer, converted, fine, mean, products, refusal, refused, scaled, step, x


def test_call__leaves_the_model_as_it_is() -> None:
    model = converted(fine)
    keys = list(model.state_dict())
    step(model)
    assert list(model.state_dict()) == keys and type(model) is Model
    assert len(model._forward_pre_hooks) == len(model._forward_hooks) == 1
    assert not model(x).grad_fn.metadata, "the loss was seen"  # type: ignore[union-attr]


def test_call__leaves_torchs_kernels_at_all_other_keys() -> None:
    """Of collectives too, which the program calls beside the model."""
    converted(fine)(x)
    put = [key.split("/") for key in torch.library._impls if key.startswith(("aten/", "c10d/"))]
    assert {namespace for namespace, _, _ in put} == {"aten", "c10d"}
    keys = {key for _, _, key in put}
    assert {ABOVE, BELOW} <= keys and not {"CPU", "AutogradCPU"} & keys


def test_call__keeps_no_graph_alive() -> None:
    class Kept:
        pass

    references = []
    model = converted(lambda model, q: scaled(model, q)[:1].expand(4, 4))
    for _ in range(3):
        output, kept = model(x), Kept()
        output.grad_fn.metadata["kept"] = kept
        references.append(weakref.ref(kept))
        del output, kept
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_call__after_an_exception_and_an_interrupt() -> None:
    for error in (ValueError, KeyboardInterrupt):
        model = converted(fine)

        def fail(*args: Any) -> None:
            raise error

        handle = model.act.register_forward_hook(fail)
        with pytest.raises(error):
            model(x)
        assert is_within() is (error is KeyboardInterrupt), "an interrupt calls no hooks"
        handle.remove()
        step(model)  # which takes away what an interrupt has left
        assert not is_within()


def test_call__inside_a_call() -> None:
    inner = converted(products)
    model = converted(lambda model, q: inner(q).softmax(-1) + q.mean())
    found = step(model)
    assert not is_within()
    assert found["output"].shape == (4, 4) and refusal(lambda: converted(lambda _, q: refused(_, inner(q)))(x))


def products_by_name(model: Model, q: torch.Tensor) -> torch.Tensor:
    return products(model, q)


def test_call__of_copies() -> None:
    model = converted(products_by_name)
    expected = repdl.digest(step(model))
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert repdl.digest(step(copied)) == expected
    inside = repdl.from_torch_module(Outer(model))
    assert not inside.blocks[0]._forward_pre_hooks and not inside.blocks[0]._forward_hooks
    assert torch.equal(inside(x), model(x))


def gradients(model: Model) -> list[torch.Tensor]:
    """Those of the parameters in a tensor of their own: torch crashes where a thread frees .grad while another adds."""
    return list(torch.autograd.grad(model(x).sum(), [p for p in model.parameters() if p.requires_grad]))


def test_call__threads_and_replicas() -> None:
    """Replicas share the hooks of a model, as torch.nn.DataParallel makes them."""
    model = converted(products)
    expected, grads = model(x), gradients(model)
    replicas = [model._replicate_for_data_parallel() for _ in range(3)]
    errors: list[BaseException] = []

    def run(replica: torch.nn.Module) -> None:
        try:
            for _ in range(10):
                assert torch.equal(replica(x), expected) and not is_within()
                assert all(map(torch.equal, gradients(model), grads))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(r,)) for r in (*replicas, model)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_call__compiled() -> None:
    """What a compiler makes of the code of a model is not seen: a warning says so."""
    model = converted(fine)
    with pytest.warns(UserWarning, match="Model, converted .* is compiled by another backend than repdl"):
        output = torch.compile(model, backend="eager", fullgraph=True)(x)
    torch.compiler.reset()
    assert torch.equal(output, model(x))
    for own in (fine, mean):
        model = converted(own)
        compiled = torch.compile(model, backend="repdl")
        if own is fine:
            assert torch.equal(compiled(x), model(x))
        else:
            assert "aten.mean" in refusal(lambda: compiled(x))
        torch.compiler.reset()


def test_call__compiled_function_of_ones_own() -> None:
    """A function of torch.autograd, whose `apply` is followed, is traced as ever."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    converted(fine)(x)
    given = x.clone().requires_grad_()
    torch.compile(lambda x: Twice.apply(x), backend="aot_eager", fullgraph=True)(given).sum().backward()
    torch.compiler.reset()
    assert torch.equal(given.grad, torch.full((4, 4), 2.0))


def test_call__remedies_of_the_rest_of_a_step() -> None:
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
