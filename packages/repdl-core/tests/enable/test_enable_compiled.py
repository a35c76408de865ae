"""`repdl.enable`: code that was compiled or traced without Dynamo, before it or while it holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import _C, nn

import repdl
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits

Tensor = torch.Tensor


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


def by_compile(x: Tensor, _: Path) -> Callable[[], Any]:
    import torch._inductor

    return partial(torch._inductor.compile(torch.fx.symbolic_trace(model()), [x]), x)


def by_compile_fx(x: Tensor, _: Path) -> Callable[[], Any]:
    from torch._inductor.compile_fx import compile_fx

    return partial(compile_fx(torch.fx.symbolic_trace(model()), [x]), x)


def by_aot_function(x: Tensor, _: Path) -> Callable[[], Any]:
    from torch._functorch.aot_autograd import aot_function
    from torch._inductor.compile_fx import compile_fx_inner

    return partial(aot_function(lambda x: (x @ x,), fw_compiler=compile_fx_inner), x)  # of no code in C++


@cache
def captured() -> Any:
    """A graph of Dynamo with its inputs, which it makes while RepDL is not enabled."""
    graphs: list[tuple[Any, Any]] = []
    torch.compile(model(), backend=lambda graph, given: graphs.append((graph, given)) or graph)(torch.ones(8, 8))
    return graphs[0]


def by_standalone_compile(x: Tensor, folder: Path) -> Callable[[], Any]:
    from torch._inductor import CompiledArtifact, standalone_compile

    graph, given = captured()
    standalone_compile(graph, given).save(path=str(folder / "saved"), format="unpacked")
    return partial(CompiledArtifact.load(path=str(folder / "saved"), format="unpacked"), *given)


def by_aot_inductor(x: Tensor, folder: Path) -> Callable[[], Any]:
    import torch._inductor

    exported = torch.export.export(model(), (x,))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "model.pt2"))
    return partial(torch._inductor.aoti_load_package(package), x)


WAYS = {
    "compile": by_compile,
    "compile_fx": by_compile_fx,
    "aot_function": by_aot_function,
    "standalone_compile": by_standalone_compile,
    "AOTInductor": by_aot_inductor,
}
SAMPLE = "aot_function"  # of what takes seconds each


@pytest.mark.parametrize("way", [w if w == SAMPLE else pytest.param(w, marks=pytest.mark.nightly) for w in WAYS])
def test_enable__what_inductor_made_is_refused(way: str, tmp_path: Path) -> None:
    """It is told whenever it runs, made before or now; afterwards it is torch's again."""
    x = torch.ones(8, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its own
        before = WAYS[way](x, tmp_path)
        plain = before()
        with repdl.enabled():
            for made in (before, lambda: WAYS[way](x, tmp_path)()):
                with pytest.raises(UnsupportedError, match=rf"code of torch._inductor, \S*{Path(__file__).name}:\d+"):
                    made()
        with repdl.enabled(on_uncovered="warn"), pytest.warns(UserWarning, match="code of torch._inductor"):
            before()
        again = before()
    assert_same_bits(
        again[0] if isinstance(again, (list, tuple)) else again,
        torch.as_tensor(plain[0]) if isinstance(plain, (list, tuple)) else plain,
    )


def test_enable__torchscript_fuses_nothing() -> None:
    fusers = _C._jit_llga_enabled, _C._jit_texpr_fuser_enabled
    before = [is_on() for is_on in fusers]
    torch.jit.enable_onednn_fusion(True)
    try:
        with repdl.enabled():
            assert not any(is_on() for is_on in fusers)
        assert [is_on() for is_on in fusers] == [True, before[1]]
    finally:
        torch.jit.enable_onednn_fusion(before[0])


CONVOLUTIONS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "Conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (2, 4, 9)),
    "Conv2d": (nn.Conv2d(3, 5, (3, 2), padding=(1, 0)), (2, 3, 6, 5)),
    "Conv3d": (nn.Conv3d(2, 3, 2, bias=False), (1, 2, 3, 4, 4)),
    "ConvTranspose1d": (nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1, groups=2), (2, 4, 9)),
    "ConvTranspose2d": (nn.ConvTranspose2d(3, 5, 3, stride=2, padding=1, dilation=1), (2, 3, 6, 5)),
    "ConvTranspose3d": (nn.ConvTranspose3d(2, 3, 2), (1, 2, 3, 3, 3)),
}


def test_enable__traced_convolutions() -> None:
    """In a graph that was traced every convolution is one op, under another name."""
    for name, (layer, shape) in CONVOLUTIONS.items():
        x = torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape).requires_grad_()
        traced = torch.jit.trace(layer, x)
        with repdl.enabled():
            results = [function(x) for function in (layer, traced)]
            grads = [torch.autograd.grad(r.square().sum(), [x, *layer.parameters()]) for r in results]
        assert_same_bits(results[1], results[0], name)
        assert_same_bits(list(grads[1]), list(grads[0]), name)
    with repdl.enabled(), pytest.raises(UnsupportedError, match="dimensions of an image"):
        torch.convolution(torch.ones(1, 1), torch.ones(1, 1), None, [], [], [], False, [], 1)
