"""No op waits for the device: nobody reads a value of a tensor there, and kernels refuse bad indices themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.ops.common import device as devices
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.tensors import values
from repdl.testing import cases, uniform

PACKAGE = Path(__file__).parents[1]
SYNCHRONISING = re.compile(r"cuda\w*(Synchronize|Memcpy|Memset|Malloc|Free|Query)\w*\s*\(")
READING = ("item", "tolist", "numpy", "cpu", "nonzero", "__int__", "__index__", "__float__", "__bool__")
"""Methods of a tensor that wait where it is on a device."""
EMULATED = "cuda-emulated" in repdl.backends() and not repdl.backends()["cuda-emulated"].error
emulated = pytest.mark.skipif(not EMULATED, reason="built without the emulated kernels")

READERS = {
    "_info.check_info": "of a tensor on the host",
    "_info.info_of": "of a tensor on the host",
    "_pivots._of_each": "of a tensor on the host",
    "index.check_index": "of a tensor on the host",
    "packed.packed": "of a tensor on the host",
    "position.check_place": "a position is on the host",
    "scalar._are_doubles": "of int64 beside floats, where NumPy could read them: on the host",
    "scalar.item": "what asks for a number",
    "amax.aminmax": "the type of its result",
    "bag_sum._check_values": "of a tensor on the host",
    "cov._weights": "of a tensor on the host",
    "ctc_loss._padded": "of lengths on the host; on a device their largest is a size, as torch's",
    "distributions.check_within": "of a tensor on the host",
    "embedding_bag._begins": "of a tensor on the host",
    "scatter._aten_histc": "the range of the bins, where none is given",
    "embedding_bag._largest": "of a tensor on the host",
    "embedding_bag.embedding_bag": "the longest bag, of a tensor on the host",
    "expand.repeat_interleave": "of a tensor on the host",
    "grouped_mm._sizes": "the ends of groups are sizes of products",
    "likelihoods._check_probabilities": "of a tensor on the host",
    "likelihoods._check_variance": "of a tensor on the host",
    "lstsq._solved": "of a tensor on the host",
    "lstsq._told": "the same, for the error",
    "scatter.bincount": "the largest is a size, as torch's",
    "products.tensordot": "dims are the caller's, and sizes depend on them",
    "unique._groups": "how many differ is a size, as torch's",
    "quantile._quantile": "of a tensor on the host",
}
"""The functions of ops that read values, and why none of them waits for a device, or has to."""


def reads(call: ast.Call) -> bool:
    """Whether a call reads the values of a tensor: x.item(), int(x.max())."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in (*READING, "aminmax")
    converts = isinstance(call.func, ast.Name) and call.func.id in ("int", "float", "bool")
    method = call.args[0].func if converts and call.args and isinstance(call.args[0], ast.Call) else None
    return isinstance(method, ast.Attribute) and method.attr in ("any", "all", "max", "min", "sum")


def readers(path: Path) -> set[str]:
    """The functions of a file that read the values of a tensor."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    found = [f for f in functions if any(isinstance(node, ast.Call) and reads(node) for node in ast.walk(f))]
    return {f"{path.stem}.{function.name}" for function in found}


def test_waits__functions_that_read_values() -> None:
    files = Path(ops.__file__).parent.rglob("*.py")
    assert {name for path in files for name in readers(path)} == set(READERS)


def test_waits__no_kernel_calls_what_waits() -> None:
    sources = [path for path in (PACKAGE / "native").rglob("*.*") if path.suffix in (".cu", ".hpp", ".cpp")]
    assert len(sources) > 30
    found = {path.name for path in sources if SYNCHRONISING.search(path.read_text())}
    assert not found


@contextmanager
def reads_counted(host: Sequence[torch.Tensor] = ()) -> Iterator[list[str]]:
    """Readings of values of tensors but `host`, while all the others pass for tensors on a device."""
    storages, found = {t.untyped_storage()._cdata for t in host}, []
    before = {name: getattr(torch.Tensor, name) for name in READING}

    def counting(name: str) -> Callable[..., Any]:
        def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.untyped_storage()._cdata not in storages:
                found.append(name)
            return before[name](self, *args, **kwargs)

        return read

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "is_on_host", lambda tensor: False)
        for name in READING:
            patch.setattr(torch.Tensor, name, counting(name))
        yield found


@emulated
def test_waits__no_op_reads_values() -> None:
    waiting = {}
    for op in implementations(get_backend("cuda-emulated")):
        schema = OPS[op].overload._schema
        for case in [case for case in cases(OPS[op].family) if case.op == op and not case.derived][:3]:
            args = case.args("v1")
            host = [a for a, argument in zip(args, schema.arguments) if argument.name in OPS[op].host and a is not None]
            with repdl.use_backend("cuda-emulated"), reads_counted(host) as found:
                OPS[op].overload(*args)
            if found:
                waiting[str(case)] = found
    assert not waiting


X, TARGET = uniform(1, 6, 5), torch.tensor([0, 4, 2, 1, 3, 0])
CALLS: dict[str, Callable[[], Any]] = {
    "cross_entropy": lambda: repdl.ops.cross_entropy(X, TARGET),
    "nll_loss": lambda: repdl.ops.nll_loss(X, TARGET),
    "multi_margin_loss": lambda: repdl.ops.multi_margin_loss(X, TARGET),
    "binary_cross_entropy": lambda: repdl.ops.binary_cross_entropy(X.abs(), X.abs()),
    "gaussian_nll_loss": lambda: repdl.ops.gaussian_nll_loss(X, X, X.abs()),
    "embedding": lambda: repdl.ops.embedding(TARGET, X),
    "embedding_bag": lambda: repdl.ops.embedding_bag(TARGET, X, torch.tensor([0, 2])),
    "embedding_bag of the largest": lambda: repdl.ops.embedding_bag(TARGET, X, torch.tensor([0, 2]), mode="max"),
    "gather": lambda: repdl.ops.gather(X, 1, TARGET.unsqueeze(1)),
    "index_select": lambda: repdl.ops.index_select(X, 0, TARGET),
    "index_add": lambda: repdl.ops.index_add(X, 0, TARGET, X),
    "index_put": lambda: repdl.ops.index_put(X, (TARGET,), X, accumulate=True),
    "quantile": lambda: repdl.ops.quantile(X, torch.tensor([0.25, 0.5])),
    "cov": lambda: repdl.ops.cov(X, aweights=X[0].abs()),
    "max_pool2d": lambda: repdl.ops.max_pool2d(X.view(1, 1, 6, 5), 2),
    "avg_pool2d": lambda: repdl.ops.avg_pool2d(X.view(1, 1, 6, 5), 2),
    "interpolate": lambda: repdl.ops.interpolate(X.view(1, 1, 6, 5), scale_factor=2.0, mode="bilinear"),
    "ctc_loss": lambda: repdl.ops.ctc_loss(
        X.view(3, 2, 5), TARGET.view(2, 3)[:, :1] % 4 + 1, torch.tensor([3, 3]), torch.tensor([1, 1])
    ),
    "ctc_loss of one row": lambda: repdl.ops.ctc_loss(X.view(3, 2, 5), TARGET[:2] % 4 + 1, [3, 3], [1, 1]),
}


@emulated
@pytest.mark.parametrize("name", CALLS)
def test_waits__no_function_reads_values(name: str) -> None:
    with repdl.use_backend("cuda-emulated"), reads_counted() as found:
        CALLS[name]()
    assert not found


COPYING = re.compile(r"torch\.(tensor|as_tensor)\(.*\bdevice=|\)\.to\(\w*\.?device\b")
"""Of a table of the host, which torch copies to a device and waits."""


def test_waits__tables_are_moved_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {path.name: path.read_text() for path in Path(ops.__file__).parent.rglob("*.py")}
    assert COPYING.search("torch.tensor(x, device=device)") and COPYING.search("torch.tensor(at).to(like.device)")
    assert not [name for name, text in sources.items() if COPYING.search(text)]
    asked = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, non_blocking: asked.append(non_blocking))
    elsewhere = torch.empty(2, device="meta")
    for tensor, device, pinned, capturing in (
        (X, "cuda", False, False),
        (X, "cuda", False, True),
        (X, "cuda", True, False),  # whose memory the caller may write to meanwhile
        (X, "cpu", False, False),
        (elsewhere, "cpu", False, False),  # which the caller reads at once
        (elsewhere, "cuda", False, False),
    ):
        monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self, pinned=pinned: pinned)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda capturing=capturing: capturing)
        devices.to_device(tensor, torch.device(device))
    assert asked == [True, False, False, False, False, False]


def test_waits__readings_are_counted() -> None:
    with reads_counted([TARGET]) as found:
        assert int(X.sum()) == int(X.sum().item()) and X.cpu().numpy().size and TARGET.tolist()
    assert found == ["__int__", "item", "cpu", "numpy"]


V1 = (256, 64, 1024)
WRONG = {
    "cross_entropy": lambda bad: (X, bad, None, "mean", -100, "v1"),
    "nll_loss": lambda bad: (X, bad, None, "none", -100, "v1"),
    "nll_loss_backward": lambda bad: (torch.ones(6), bad, None, torch.tensor(6.0), 5, "none", -100, "v1"),
    "cross_entropy_backward": lambda bad: (
        torch.ones(()), X, bad, None, torch.tensor(6.0), X[:, 0].clone(), X[:, 1].clone(), "mean", -100, "v1",
    ),
    "embedding": lambda bad: (X[:5], bad, -1, False, "v1"),
    "index_sum": lambda bad: (X, bad, 5, "v1"),
    "max_pool2d_backward": lambda bad: (uniform(1, 1, 1, 1, 6), bad.view(1, 1, 1, 6), [1, 5]),
}  # fmt: skip
"""Arguments of an op whose indices are to be from 0 to 4."""


@emulated
@pytest.mark.parametrize("value", [-1, 5, 2**40, -(2**63)])
@pytest.mark.parametrize("op", WRONG)
def test_waits__kernel_refuses_index(op: str, value: int) -> None:
    """Nothing at an index that does not exist is read or written: 2**40 and -2**63 are in nobody's memory."""
    implementation = get_backend("cuda-emulated").ops[op]
    implementation(*WRONG[op](TARGET))
    with pytest.raises(RuntimeError, match="emulation: thread .* of block .*: (a target|an index) is "):
        implementation(*WRONG[op](torch.where(torch.arange(6) == 3, value, TARGET)))


@pytest.mark.parametrize("name", ["probabilities", "variances"])
def test_waits__device_asserts_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, but that torch's assertion waits on a CPU."""
    monkeypatch.setattr(values, "is_on_host", lambda tensor: False)
    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "probabilities": lambda x: repdl.ops.binary_cross_entropy(x, X.abs()),
        "variances": lambda x: repdl.ops.gaussian_nll_loss(X, X, x),
    }
    calls[name](X.abs())
    with repdl.use_backend("reference"), pytest.raises(RuntimeError, match="a number of (input|var) is "):
        calls[name](X.abs().index_fill(0, torch.tensor([2]), -1.0))
