"""Unmodified programs on a GPU: torch's functions under `repdl.enable()`, models, and what they have on a CPU."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl.testing import opinfo
from repdl.testing.compare import difference

_row = repdl.backends().get("cuda")
pytestmark = pytest.mark.skipif(
    _row is None or _row.error is not None, reason=f"needs a GPU: {_row.error if _row else 'no repdl-cuda'}"
)
EXAMPLES = Path(__file__).parents[3] / "examples"
OF_ONE_DEVICE = ("tensor_split", "jiterator")
"""Take a tensor on the CPU, or none there: which op it is begins so."""
NOT_ON_GPU = "(RuntimeError|NotImplementedError): .*not implemented for '(Long|Bool|Char|Short|Int|Byte)'"
"""Products of integers, which torch has on the CPU only."""
UNWRITTEN = ("empty", "new_empty", "as_strided")
"""Give memory in which anything may be."""


def on(device: str, sample: Any) -> Any:
    """A copy of a sample, its tensors and a device that it names on this one."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)

    copy = sample.transform(move)
    copy.kwargs = {k: device if k == "device" else move(v) for k, v in copy.kwargs.items()}
    return copy


def computed(info: Any, sample: Any, with_gradients: bool) -> list[torch.Tensor] | str:
    """Results or gradients on the host, or which error was raised."""
    torch.manual_seed(0)
    try:
        results = opinfo.tensors_of(info.op(sample.input, *sample.args, **sample.kwargs))
        torch.cuda.synchronize()  # copies to the host that were not waited for
        inputs = opinfo.tensors_of((sample.input, sample.args, sample.kwargs))
        found = opinfo.gradients_of(results, inputs) if with_gradients else results
        return [t.detach().cpu().resolve_conj().resolve_neg() for t in found if t is not None]
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def compared(on_cpu: list[torch.Tensor] | str, on_gpu: list[torch.Tensor] | str) -> str:
    """How the two differ; nothing where they are the same bits, or both raise."""
    if isinstance(on_cpu, str) or isinstance(on_gpu, str):
        if isinstance(on_cpu, str) and isinstance(on_gpu, str):
            return ""
        if isinstance(on_cpu, str):
            return f"raised on the CPU: {on_cpu}"
        return "" if re.match(NOT_ON_GPU, str(on_gpu)) else f"raised on the GPU: {on_gpu}"
    real = [[torch.view_as_real(t) if t.is_complex() else t for t in each] for each in (on_gpu, on_cpu)]
    return difference(*real) or ""


@pytest.mark.parametrize("part", range(12))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_gpu_enabled__a_sample_of_every_op(dtype: torch.dtype, part: int) -> None:
    """The bits of the CPU, gradients too; what one of the two refuses, both refuse."""
    pytest.importorskip("expecttest", reason="torch's database of ops needs it")
    counted, wrong = Counter[str](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its samples
        samples = [
            (info, sample)
            for infos in list(opinfo.database().values())[part::12]
            for info in infos
            if dtype in info.supported_dtypes("cpu") and not info.name.startswith((*UNWRITTEN, *OF_ONE_DEVICE))
            for sample in opinfo.samples(info, dtype, 6)
        ]
        with repdl.enabled():
            for info, sample in samples:
                for of in ("results", "gradients"):
                    both = [computed(info, on(device, sample), of == "gradients") for device in ("cpu", "cuda")]
                    counted["raised" if isinstance(both[0], str) else of] += 1
                    if found := compared(*both):
                        wrong.append(f"{of} of {info.name}{info.variant_test_name}: {found}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(samples)}", *wrong])
    assert counted["results"] > 20 and counted["gradients"] > 20, counted


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "vit", "convnext", "efficientnet", "encoder", "lstm"])
def test_gpu_enabled__programs(name: str) -> None:
    """Programs of other projects have on the GPU the digests that they have on the CPU."""
    if name not in ("encoder", "lstm"):
        pytest.importorskip("transformers")
    command = [sys.executable, str(EXAMPLES / "programs.py"), name]
    done = [
        subprocess.run([*command, "--device", device], capture_output=True, text=True, check=False)
        for device in ("cpu", "cuda")
    ]
    assert not any(each.returncode for each in done), done[0].stderr + done[1].stderr
    assert done[0].stdout == done[1].stdout


@pytest.mark.parametrize("name", ["models", "one_seed"])
def test_gpu_enabled__recorded_digests(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--device", "cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def trained(device: str, compiles: bool) -> tuple[float, str]:
    """The last loss, and the digest of a model that a program of torch alone trains."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.LayerNorm(40), nn.Dropout(0.2), nn.Linear(40, 5)).to(device)
    x, y = torch.randn(64, 20).to(device), torch.randint(5, (64,)).to(device)
    call = torch.compile(model, backend="repdl") if compiles else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
    return loss.item(), repdl.digest(model)


def test_gpu_enabled__compiled() -> None:
    with repdl.enabled():
        expected = trained("cpu", False)
        assert trained("cuda", False) == expected
        assert trained("cuda", True) == expected
