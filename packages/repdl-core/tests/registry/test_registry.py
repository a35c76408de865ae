"""The registry: choice of backend, broken plug-ins, ops and backends of other projects."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl import registry
from repdl.errors import BackendError, DeviceError, DTypeError, NameTakenError, ShapeError, UnsupportedError
from repdl.registry import schema
from repdl.registry.backend import Backend, register_backend, unregister_backend

INSTALLED = [name for name, info in repdl.backends().items() if info.device == "cpu" and not info.error]
ONES = torch.ones(2, 2)


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = os.environ.get("REPDL_BACKEND")
    yield
    repdl.set_backend(before)


def backend(name: str, value: float, priority: int = 0, device: str = "cpu") -> Backend:
    """A backend whose matmul gives `value` everywhere: its results show who computed them."""

    def matmul(input: torch.Tensor, mat2: torch.Tensor, transA: bool, transB: bool, contract: str) -> torch.Tensor:
        return torch.full((input.shape[0], mat2.shape[1]), value)

    return Backend(name, device, {"matmul": matmul}, priority)


@pytest.fixture
def registered() -> Iterator[Any]:
    """`registered(backend)` for the length of a test."""
    names: list[str] = []

    def register(new: Backend) -> None:
        register_backend(new)
        names.append(new.name)

    yield register
    for name in names:
        unregister_backend(name)


def test_backends__reference_is_listed() -> None:
    info = repdl.backends()["reference"]
    assert (info.device, info.error, info.ops) == ("cpu", None, sum(op.formula is None for op in registry.OPS.values()))
    assert info.priority < 0


def test_backend__highest_priority_is_picked(registered: Any) -> None:
    registered(backend("low", 5.0, priority=2000))
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 5
    registered(backend("high", 7.0, priority=3000))
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 7
    unregister_backend("high")
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 5


def test_backend__an_op_it_lacks_comes_from_the_next(registered: Any) -> None:
    registered(backend("partial", 5.0, priority=2000))
    assert repdl.ops.add(ONES, ONES)[0, 0] == 2


def test_backend__a_dtype_it_lacks_comes_from_the_next(registered: Any) -> None:
    registered(backend("single_only", 5.0, priority=2000))
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 5
    assert repdl.ops.mm(ONES.double(), ONES.double())[0, 0] == 2
    with repdl.use_backend("single_only"), pytest.raises(DTypeError, match="'single_only' has no kernel for float64"):
        repdl.ops.mm(ONES.double(), ONES.double())


def test_backend__halves_are_cast_by_another_backend_of_the_device(registered: Any) -> None:
    registered(backend("single_only", 5.0, priority=2000))
    half = ONES.bfloat16()
    assert repdl.ops.mm(half, half)[0, 0] == 5
    with repdl.use_backend("single_only"):
        output = repdl.ops.mm(half, half)
        assert (output.dtype, output[0, 0]) == (torch.bfloat16, 5)
        with pytest.raises(BackendError, match="add: not implemented by single_only"):
            repdl.ops.add(half, half)


def test_backend__an_op_that_the_chosen_one_lacks(registered: Any) -> None:
    registered(backend("partial", 5.0))
    with repdl.use_backend("partial"), pytest.raises(BackendError, match="add: not implemented by partial"):
        repdl.ops.add(ONES, ONES)


def test_use_backend__nests_and_is_restored(registered: Any) -> None:
    registered(backend("five", 5.0, priority=-2000))
    registered(backend("seven", 7.0, priority=-2000))
    with repdl.use_backend("five") as outer:
        assert outer.name == "five"
        with pytest.raises(KeyError), repdl.use_backend("seven"):
            assert repdl.ops.mm(ONES, ONES)[0, 0] == 7
            raise KeyError
        assert repdl.ops.mm(ONES, ONES)[0, 0] == 5
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 2


def test_set_backend__none_picks_by_device_again(registered: Any) -> None:
    registered(backend("five", 5.0, priority=-2000))
    repdl.set_backend("five")
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 5
    repdl.set_backend(None)
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 2


@pytest.mark.parametrize("name", INSTALLED)
def test_use_backend__each_installed_one(name: str) -> None:
    with repdl.use_backend(name):
        assert repdl.ops.mm(ONES, ONES)[0, 0] == 2


def test_use_backend__unknown_changes_nothing() -> None:
    with pytest.raises(BackendError, match="'nosuch' is not installed .*reference.*group repdl.backends"):
        repdl.set_backend("nosuch")
    with pytest.raises(BackendError), repdl.use_backend("nosuch"):
        pass
    assert repdl.ops.mm(ONES, ONES)[0, 0] == 2


def test_backend__advice_names_no_package_that_anybody_could_take() -> None:
    """Packages of RepDL alone, whatever the name is that a user writes or a device has."""
    for call in (
        lambda: repdl.set_backend("nosuch"),
        lambda: repdl.registry.backend.get_backend("repdl-nosuch"),
        lambda: repdl.registry.lookup("matmul", "xpu"),
        lambda: repdl.registry.lookup("matmul", "mps"),
    ):
        with pytest.raises(BackendError) as raised:
            call()
        message = str(raised.value)
        assert {*re.findall(r"repdl-\w+", message.replace("'repdl-nosuch'", ""))} == {"repdl-cpu", "repdl-cuda"}, (
            message
        )
        assert "pip" not in message and message.endswith("the entry-point group repdl.backends")


def test_use_backend__of_another_device(registered: Any) -> None:
    registered(backend("elsewhere", 5.0, device="cuda"))
    with (
        repdl.use_backend("elsewhere"),
        pytest.raises(BackendError, match="matmul: backend 'elsewhere' takes cuda tensors, got cpu"),
    ):
        repdl.ops.mm(ONES, ONES)


def test_device__without_a_backend() -> None:
    registry.define(
        "on_meta",
        "(Tensor input) -> Tensor",
        namespace="repdl_test_registry",
        distribution="test",
        check=lambda input: None,
        fake=lambda input: torch.empty_like(input),
    )
    try:
        with pytest.raises(BackendError, match="on_meta: no backend for xpu tensors is installed; RepDL's come with"):
            registry.lookup("on_meta", "xpu")
    finally:
        registry.undefine("on_meta")


def test_device__mixed() -> None:
    with pytest.raises(DeviceError, match=r"matmul: tensors on cpu and meta.*\.to\('cpu'\)"):
        torch.ops.repdl.matmul(ONES, torch.ones(2, 2, device="meta"), False, False, "v1")


# Ops of another project.


@pytest.fixture
def twice() -> Iterator[Any]:
    """An op of an outside namespace, 2x, with a derivative."""
    calls: list[str] = []

    def check(input: torch.Tensor) -> None:
        calls.append("check")
        if input.dim() != 1:
            raise ShapeError(f"twice: input.dim() is {input.dim()}, expected 1")

    op = registry.define(
        "twice",
        "(Tensor input) -> Tensor",
        namespace="repdl_test",
        distribution="somebody-elses",
        check=check,
        fake=lambda input: input.new_empty(input.shape),
        setup_context=lambda ctx, inputs, output: None,
        backward=lambda ctx, grad: op(grad),
    )
    try:
        yield op, calls
    finally:
        registry.undefine("twice")
        schema.LIBRARIES.pop("repdl_test")._destroy()


def test_define__derivative_with_a_default_and_a_list() -> None:
    """What the dispatcher takes away or unpacks reaches kernel and derivative as the schema has it."""
    seen: list[Any] = []

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append(inputs)

    scaled = registry.define(
        "scaled",
        "(Tensor input, float by=3) -> Tensor",
        namespace="repdl_test_forms",
        distribution="test",
        check=lambda input, by=3.0: None,
        fake=lambda input, by=3.0: input.new_empty(input.shape),
        setup_context=setup_context,
        backward=lambda ctx, grad: (grad * 5, None),
    )
    total = registry.define(
        "total",
        "(Tensor[] inputs) -> Tensor",
        namespace="repdl_test_forms",
        distribution="test",
        check=lambda inputs: None,
        fake=lambda inputs: inputs[0].new_empty(inputs[0].shape),
        setup_context=lambda ctx, inputs, output: None,
        backward=lambda ctx, grad: [grad, grad * 2],
    )
    try:
        for name in INSTALLED:
            registry.implement("scaled", name, lambda input, by=3.0: input * by)
            registry.implement("total", name, lambda inputs: inputs[0] + inputs[1])
        x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        scaled(x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [5, 5] and seen[-1][1] == 3.0
        scaled(y, 4.0).sum().backward()
        assert y.grad is not None and y.grad.tolist() == [5, 5] and seen[-1][1] == 4.0
        x.grad = y.grad = None
        total([x, y]).sum().backward()
        assert x.grad.tolist() == [1, 1] and y.grad.tolist() == [2, 2]
    finally:
        for op in ("scaled", "total"):
            registry.undefine(op)
        schema.LIBRARIES.pop("repdl_test_forms")._destroy()


def test_define__outside_op_with_autograd(twice: Any) -> None:
    op, calls = twice
    for name in INSTALLED:
        registry.implement("twice", name, lambda input: input * 2)
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = torch.ops.repdl_test.twice(x)
    assert y.tolist() == [2, 6] and calls == ["check"]
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]
    assert registry.OPS["twice"].distribution == "somebody-elses"
    torch.library.opcheck(registry.OPS["twice"].overload, (torch.ones(3, requires_grad=True),))
    assert [op(x).tolist() for _ in range(3)] == [[2, 6]] * 3


@pytest.mark.parametrize(
    ("name", "family", "message"),
    [
        ("matmul", None, r"the op name 'matmul' is taken by repdl-core \(repdl.matmul.default\).*choose another"),
        ("new_name", "matmul", "the family name 'matmul' is taken by repdl-core"),
        ("twice", None, "the op name 'twice' is taken by somebody-elses"),
    ],
)
def test_define__a_name_that_is_taken(twice: Any, name: str, family: str | None, message: str) -> None:
    """Kernels are looked up by name: a second op of one name would be computed by the first one's."""
    before = dict(registry.OPS)
    with pytest.raises(NameTakenError, match=message):
        registry.define(
            name,
            "(Tensor input) -> Tensor",
            namespace="repdl_test_taken",
            distribution="test",
            family=family,
            check=lambda input: None,
            fake=lambda input: torch.empty_like(input),
        )
    assert before == registry.OPS and "repdl_test_taken" not in schema.LIBRARIES


def test_define__without_a_derivative() -> None:
    names = ("first_alone", "second_alone")
    try:
        for name in names:
            registry.define(
                name,
                "(Tensor input) -> Tensor",
                namespace="repdl_test_alone",
                distribution="test",
                check=lambda input: None,
                fake=lambda input: torch.empty_like(input),
            )
            registry.implement(name, "reference", lambda input: input * 2)
        result = torch.ops.repdl_test_alone.second_alone(torch.ones(2, requires_grad=True))
        others = "nor are first_alone; every other op is"
        with pytest.raises(UnsupportedError, match=f"second_alone: is not differentiable, {others}"):
            result.sum().backward()
    finally:
        for name in names:
            registry.undefine(name)
        schema.LIBRARIES.pop("repdl_test_alone")._destroy()


def test_define__check_runs_before_any_kernel(twice: Any) -> None:
    op, _ = twice
    reached = []
    registry.implement("twice", "reference", reached.append)
    for device in ("cpu", "meta"):
        with pytest.raises(ShapeError, match=r"input.dim\(\) is 2"):
            op(torch.ones(2, 2, device=device))
    assert not reached


def test_implement__counts_as_the_backends_own(twice: Any) -> None:
    op, _ = twice
    before = repdl.backends()["reference"].ops
    with pytest.raises(BackendError, match="twice: not implemented by"):
        op(torch.ones(2))
    registry.implement("twice", "reference", lambda input: input + input)
    assert repdl.backends()["reference"].ops == before + 1
    assert op(torch.ones(2)).tolist() == [2, 2]


def test_second_derivative__inside_the_contract() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    (grad,) = torch.autograd.grad(repdl.ops.mul(x, repdl.ops.mul(x, x)).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert (grad.item(), second.item()) == (27, 18)
