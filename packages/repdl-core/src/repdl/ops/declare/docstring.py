"""Docstrings of public functions: what follows from their arguments, and need not be written."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_PAGES = "https://docs.pytorch.org/docs/stable/"
_WIDTH = 120


_SIDES = {1: ("L",), 2: ("H", "W"), 3: ("D", "H", "W")}
_OPTIONS = {1: "a sequence of one", 2: "(height, width)", 3: "(depth, height, width)"}


def with_sides(text: str, n: int) -> str:
    """A docstring with what `{sides}`, `{out}`, `{kernel}`, `{windows}`, `{option}` and `{n}` are of n sides."""
    sides = _SIDES[n]
    outputs, kernels = ([first + side for side in sides] for first in "OK")
    words = {"sides": ", ".join(sides), "out": ", ".join(outputs), "windows": " x ".join(outputs)}
    return text.format(n=n, option=_OPTIONS[n], kernel=", ".join(kernels) if n > 1 else "K", **words)


def completed(
    function: Any, parameters: Mapping[str, inspect.Parameter], family: str, page: str, broadcasts: bool
) -> str:
    """The docstring with the errors that follow from the parameters, the contract and the source."""
    name, text = function.__name__, inspect.cleandoc(function.__doc__)
    written = text.partition("\nRaises:")[2]
    types = {name: str(p.annotation) for name, p in parameters.items()}
    errors = "".join(f"\n    {error}" for error in _errors(types, written, broadcasts))
    if errors and not written:
        text += "\n\nRaises:"
    module = "torch.nn.functional" if hasattr(torch.nn.functional, name) else "torch"
    contract, source = f"Contract: {family} v1.", f"Source: {_PAGES}{page or f'generated/{module}.{name}'}.html"
    one = f"{contract} {source}"
    last = one if len(one) <= _WIDTH - 4 else f"{contract}\n{source}"
    return f"{text}{errors}\n\n{last}\n"


def _errors(types: Mapping[str, str], written: str, broadcasts: bool) -> Iterator[str]:
    """What a function raises by the names and types of its arguments, where the docstring does not say it."""
    if broadcasts:
        yield "ShapeError: if the shapes do not broadcast."
    if "dim" in types and "dim" not in written.replace("`dim` is None", "").replace("dimensional", ""):
        several = "Sequence" in types["dim"] or "Dims" in types["dim"]
        yield f"ShapeError: if {'a dimension does not exist or is named twice' if several else '`dim` does not exist'}."
    if "size_average" in types:
        yield "UnsupportedError: for torch's deprecated `size_average` and `reduce`."
    if types.get("dtype") == "torch.dtype | None" and "dtype`" not in written and "other dtypes" not in written:
        yield "UnsupportedError: if `dtype` is no dtype of the contract."
    if "generator" in types:
        yield "UnsupportedError: in a recomputation that would draw other numbers (`repdl.random.Generator.position`)."
    takes_tensors = any(kind in annotation for annotation in types.values() for kind in ("Tensor", "Operand"))
    if takes_tensors and "DTypeError" not in written:
        yield _dtype_error([p for p, annotation in types.items() if annotation.endswith("Tensor")])


def _dtype_error(tensors: list[str]) -> str:
    if len(tensors) == 1:
        return f"DTypeError: if `{tensors[0]}` is of no dtype of the contract."
    return "DTypeError, DeviceError: if dtypes or devices are not those of the contract."
