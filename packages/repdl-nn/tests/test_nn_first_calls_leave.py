"""What the check of a converted model's first calls leaves: bits, state, hooks, graphs and threads as they were."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch.utils._python_dispatch import _get_current_dispatch_mode

import repdl
from watched import (
    Model,
    Outer,
    check_of,
    converted,
    fine,
    finished,
    mean,
    products,
    refusal,
    scaled,
    step,
    x,
)


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


def products_by_name(model: Model, q: torch.Tensor) -> torch.Tensor:
    return products(model, q)


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
