"""`repdl.enable`: what is refused, where and how."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from enabling import same, values

import repdl
from repdl import ops
from repdl.audit.op_classes import OpClass, class_of, plain_name
from repdl.errors import ArgumentError, DTypeError, UnsupportedError
from repdl.overrides.functions import functions
from repdl.overrides.kernels import Found, kernels

set_flush_denormal = torch.set_flush_denormal  # torch's own, also while another one is in its place


def test_enable__refuses_what_is_not_reproducible() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.matrix_exp(self.inner(x))

    model = torch.nn.Sequential(Model())
    with repdl.enabled(), pytest.raises(UnsupportedError) as raised:
        model(values(3, 3))
    message = str(raised.value)
    assert "linalg_matrix_exp" in message and " in 0, " in message
    assert "test_enable_refusals.py:" in message and "torch.linalg.matrix_exp(self.inner(x))" in message
    assert message.endswith('; with repdl.enable(on_uncovered="warn") this is a warning, and torch\'s own code runs')
    torch.linalg.matrix_exp(values(3, 3))


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor flushes no subnormal numbers")
def test_enable__refuses_to_flush_subnormal_numbers() -> None:
    """torch's comparisons and conversions, which stay torch's, would take them for 0."""
    tiny, before = torch.tensor([1e-40]), torch.set_flush_denormal
    with repdl.enabled():
        with pytest.raises(UnsupportedError, match=r"torch\.set_flush_denormal, .*test_enable_refusals\.py:\d+ "):
            torch.set_flush_denormal(True)
        assert torch.set_flush_denormal(False) and bool(tiny != 0)
    assert torch.set_flush_denormal is before
    try:
        with repdl.enabled(on_uncovered="warn"), pytest.warns(UserWarning, match="set_flush_denormal"):
            assert torch.set_flush_denormal(True)
        with pytest.raises(
            UnsupportedError, match=r"this thread flushes .* call torch\.set_flush_denormal\(False\).*on_uncovered"
        ):
            repdl.enable()
        with pytest.warns(UserWarning, match="this thread flushes"):
            repdl.enable(on_uncovered="warn")
    finally:
        torch.set_flush_denormal(False)
        repdl.disable()
    with repdl.enabled():
        assert bool(tiny != 0)


def test_enable__errors_say_where_the_program_is() -> None:
    """Dtypes and options that an op does not have: what raises is called by torch's dispatcher, not by the program."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x)

    model, x = torch.nn.Sequential(torch.nn.Identity(), Model()), values(3).to(torch.float8_e4m3fn)
    with repdl.enabled():
        with pytest.raises(UnsupportedError) as raised:
            model(x)
        with pytest.raises(UnsupportedError, match=r"complex64.*test_enable_refusals\.py:\d+ `torch\.ones"):
            torch.ones(2) / torch.ones(2, dtype=torch.complex64)
        again = pickle.loads(pickle.dumps(raised.value))
        assert str(again) == str(raised.value)
    message = str(raised.value)
    assert message.startswith("exp: input.dtype is float8_e4m3fn, expected float32")
    assert "; in 1, " in message and re.search(r"test_enable_refusals\.py:\d+ `return torch\.exp\(x\)`$", message)
    with pytest.raises(DTypeError) as raised:
        ops.exp(x)
    assert ".py" not in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.fft.fft(x),
        lambda x: x.lgamma(),
        lambda x: torch._foreach_lgamma([x]),
        lambda x: torch.digamma(x),
        lambda x: torch.linalg.svd(x.view(2, 2)),
        lambda x: torch.add(x.to_sparse(), x.to_sparse()),
        lambda x: torch.complex(x, x).abs(),
        lambda x: torch.arange(0, 1, 0.1, dtype=torch.int32),
        lambda x: torch.round(x, decimals=2),
        lambda x: torch.ops.aten._grid_sampler_2d_cpu_fallback(x.view(1, 1, 2, 2), x.view(1, 1, 2, 2), 0, 0, False),
    ],
)  # fmt: skip
def test_enable__refusals(call: Callable[[torch.Tensor], Any]) -> None:
    with repdl.enabled(), pytest.raises(repdl.RepDLError):
        call(values(4))


def test_enable__what_is_reproducible_for_some_arguments_is_remembered_for_these_alone() -> None:
    with repdl.enabled():
        for _ in range(3):
            assert torch.arange(0, 5).tolist() == torch.arange(0.0, 5.0).tolist() == [0, 1, 2, 3, 4]
            for call in (
                lambda: torch.arange(0.0, 5.5, dtype=torch.int64),
                lambda: torch.arange(0, 5, 0.5, out=torch.empty(10, dtype=torch.int64)),
            ):
                with pytest.raises(UnsupportedError, match="expected integers"):
                    call()
        if set_flush_denormal(True):  # as a library that is built with -ffast-math does where it is loaded
            try:
                tiny = torch.arange(0.0, 5e-40, 1e-40)
            finally:
                torch.set_flush_denormal(False)
            assert torch.equal(tiny, torch.tensor([0, 1e-40, 2e-40, 3e-40, 4e-40]))


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


def _seeds() -> list[Callable[[], Any]]:
    return [torch.seed, torch.random.seed, torch.cuda.seed, torch.cuda.seed_all, torch.cuda.random.seed_all]


def test_enable__refuses_seeds_that_are_others_in_every_run() -> None:
    torch.manual_seed(3)
    before = _seeds()
    with repdl.enabled():
        for seed in _seeds():
            with pytest.raises(UnsupportedError, match=r"seed(_all)?, .*test_enable.*torch\.manual_seed.*on_uncovered"):
                seed()
        assert torch.initial_seed() == 3
        torch.manual_seed(4)
    assert _seeds() == before
    with repdl.enabled(on_uncovered="warn"), pytest.warns(UserWarning, match="torch.seed"):
        assert torch.seed() == torch.initial_seed()


def test_enable__what_torch_computes_has_a_derivative() -> None:
    """What torch computes forward has no derivative that is refused, where nobody could say the line of the program.

    Autograd's C++ calls ops named after the forward one, or composes what the forward ones do.
    """
    known = {plain_name(name) for name in torch._C._dispatch_get_all_op_names()}
    torchs = {n for n in known if class_of(n) not in (None, OpClass.DRAWS, OpClass.REFUSED) and n not in functions()}
    assert "gather" in torchs
    refused = {n for n in known if class_of(n) is OpClass.REFUSED and n not in functions()}
    assert "linalg_matrix_exp" in refused
    assert not {n for n in refused if re.sub("_backward.*", "", n) in torchs and "_backward" in n}


def test_enable__refuses_in_compiled_functions() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.lgamma() + 1

    compiled = torch.compile(function, backend="eager")
    compiled(values(3))
    line = function.__code__.co_firstlineno + 1
    with repdl.enabled(), pytest.raises(UnsupportedError, match=rf"lgamma.*test_enable_refusals.py:{line} "):
        compiled(values(3))


def test_enable__warns_if_asked_to() -> None:
    x = values(3).abs()
    expected = r"repdl.enable: not reproducible: aten.lgamma.*test_enable_refusals.py"
    with repdl.enabled(on_uncovered="warn"), pytest.warns(UserWarning, match=expected) as warned:
        found = x.lgamma()
    assert "on_uncovered" not in str(warned[0].message)
    assert torch.equal(found, x.lgamma())
    with pytest.raises(ArgumentError, match="on_uncovered"):
        repdl.enable(on_uncovered="ignore")


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
            for name, key, *_ in kernels("CUDA", "raise", torch._C._dispatch_get_all_op_names(), Found())
            if name == "repdl_tests::of_layouts"
        ]
    assert refused == keys


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
