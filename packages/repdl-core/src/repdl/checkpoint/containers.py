"""Tensors of a file or a folder, in whatever container: safetensors or torch's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from repdl.checkpoint.folder import is_checkpoint
from repdl.digest import digest
from repdl.errors import CheckpointError
from repdl.tensors.apart import apart
from repdl.tensors.raw import dtype_name

_TORCH = (".pt", ".pth", ".bin", ".ckpt")


def load_container(path: str | os.PathLike[str]) -> Any:
    """What a file or a folder holds, on the CPU: its digest depends on names, dtypes, shapes and elements alone.

    Args:
        path: a file of safetensors, or of `torch.save`, which `weights_only=True` must be able to read; or a folder:
            its files of safetensors are the parts of one mapping, or, if it has none, those of `torch.save`.

    Returns:
        a mapping by name from safetensors; from others what was saved.

    Raises:
        CheckpointError: if there is no such file, or it can't be read; or if two parts have a tensor of one name.
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"digest: {path} does not exist, expected a file or a folder")
    if path.is_file() and is_checkpoint(path):
        raise CheckpointError(f"digest: {path} is of repdl.checkpoint, which `repdl checkpoint` shows and compares")
    return _folder(path) if path.is_dir() else _file(path)


def _folder(path: Path) -> dict[str, Any]:
    parts = sorted(path.glob("*.safetensors")) or sorted(p for p in path.iterdir() if p.suffix in _TORCH)
    if not parts:
        raise CheckpointError(f"digest: {path} has no file of *.safetensors or {', *'.join(('', *_TORCH))[2:]}")
    whole: dict[str, Any] = {}
    for part in parts:
        held = _file(part)
        if not isinstance(held, Mapping):
            raise CheckpointError(
                f"digest: {part} holds a {type(held).__name__}, expected a mapping, as a part of {path}"
            )
        twice = whole.keys() & held.keys()
        if twice:
            raise CheckpointError(
                f"digest: {part} has {min(map(str, twice))!r}, as another file of {path} has; name one of them"
            )
        whole |= held
    return whole


def _file(path: Path) -> Any:
    try:
        return _of_safetensors(path) if _is_safetensors(path) else _of_torch(path)
    except CheckpointError:
        raise
    except Exception as error:  # whatever unpickling, and the two libraries, may raise
        first = str(error).strip().splitlines()[:1]
        raise CheckpointError(f"digest: {path} can't be read: {type(error).__name__}: {''.join(first)}") from error


def _is_safetensors(path: Path) -> bool:
    """By its first bytes: the length of a header of JSON, which a zip and a pickle don't begin with."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _of_safetensors(path: Path) -> Any:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise CheckpointError(f"digest: {path} is of safetensors: `pip install safetensors` reads it") from error
    with safe_open(path, "pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping


def _of_torch(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


@dataclass(frozen=True)
class Unequal:
    """A path where two containers differ."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def unequal(a: Any, b: Any, path: str = "") -> Iterator[Unequal]:
    """Where two nests of tensors differ, and how far the tensors of one dtype and shape are apart.

    Args:
        a, b: as of `load_container`.

    Raises:
        CheckpointError: for tensors that are not strided, or are quantised.
    """
    for tensor in (a, b):
        if isinstance(tensor, torch.Tensor) and (tensor.layout is not torch.strided or tensor.is_quantized):
            what = "is quantised" if tensor.is_quantized else f"has layout {tensor.layout}"
            raise CheckpointError(f"diff: {path or 'the tensor'} {what}, expected plain strided tensors")
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        shown = [f"{dtype_name(t)}{list(t.shape)}" for t in (a, b)]
        if shown[0] != shown[1]:
            yield Unequal(path, f"{shown[0]} in a, {shown[1]} in b")
        elif found := apart(a, b):
            yield Unequal(path, f"{shown[0]}, {found.text()}")
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in [*a, *(key for key in b if key not in a)]:
            inside = f"{path}.{key}" if path else str(key)
            if key in a and key in b:
                yield from unequal(a[key], b[key], inside)
            else:
                yield Unequal(inside, "only in a" if key in a else "only in b")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from unequal(x, y, f"{path}[{i}]")
    elif digest(a) != digest(b):
        yield Unequal(path, f"{_shown(a)} in a, {_shown(b)} in b")


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (int, float, str, type(None))) else type(value).__name__
    return text if len(text) < 60 else f"{text[:57]}..."


__all__ = ["Unequal", "load_container", "unequal"]
