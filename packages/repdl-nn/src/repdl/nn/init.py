"""The functions of `torch.nn.init`, drawing from `repdl.random`: the same initial values on every machine.

`calculate_gain`, `constant_`, `dirac_`, `eye_`, `ones_` and `zeros_`, which draw nothing, are torch's own. Standard
deviations and bounds are computed in doubles, by `+`, `*`, `/` and `sqrt` alone, each rounded once in integers
(`repdl.dtypes.rounding`), whatever the thread's rounding mode.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.init import calculate_gain, constant_, dirac_, eye_, ones_, zeros_

from repdl import ops, random
from repdl.contract import Contract, contract_name
from repdl.dtypes import rounding
from repdl.errors import check, check_dim, check_range, check_tensor
from repdl.generators.draws import finite, takes
from repdl.nn import left_out
from repdl.nn.householder import orthogonal_columns
from repdl.random import Generator

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

Tensor = torch.Tensor


@torch.no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in [a, b), as `repdl.random.uniform_`; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless a <= b, or for another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.uniform_
    """
    return random.uniform_(tensor, a, b, generator=generator)


@torch.no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers, as `repdl.random.normal_`; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: if `std` is negative, or for another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.normal_
    """
    return random.normal_(tensor, mean, std, generator=generator)


@torch.no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers that lie in [a, b], as `repdl.random.trunc_normal_`; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless std > 0 and a <= b, or for another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.trunc_normal_
    """
    return random.trunc_normal_(tensor, mean, std, a, b, generator)


def _fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of `(out, in, ...)`: channels times the positions of a kernel."""
    check_tensor(name, tensor=tensor)
    check(name, tensor.dim() >= 2, lambda: f"tensor.dim() is {tensor.dim()}, expected 2 or more")
    positions = math.prod(tensor.shape[2:])
    return tensor.shape[1] * positions, tensor.shape[0] * positions


def _xavier_std(gain: float, fans: int) -> float:
    return rounding.mul(finite("xavier", "gain", gain), rounding.sqrt(rounding.div(2.0, float(fans))))


def _gain(name: str, nonlinearity: Any, a: float) -> float:
    """`calculate_gain`, whose operations Python rounds as the thread does."""
    gain = float(calculate_gain(nonlinearity, a))  # raises for what it does not know
    if nonlinearity == "tanh":
        return rounding.div(5.0, 3.0)
    if nonlinearity == "relu":
        return rounding.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = finite(name, "a", a)
        return rounding.sqrt(rounding.div(2.0, rounding.add(1.0, rounding.mul(slope, slope))))
    return gain  # a constant


@torch.no_grad()
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in [-a, a), a = sqrt(3) * (gain * sqrt(2 / (fan_in + fan_out))); returns the tensor.

    Raises:
        ShapeError, UnsupportedError: for less than 2 dimensions, or another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://proceedings.mlr.press/v9/glorot10a.html
    """
    fan_in, fan_out = _fans("xavier_uniform_", tensor)
    a = rounding.mul(rounding.sqrt(3.0), _xavier_std(gain, fan_in + fan_out))
    return random.uniform_(tensor, -a, a, generator=generator)


@torch.no_grad()
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers, std = gain * sqrt(2 / (fan_in + fan_out)); returns the tensor.

    Raises:
        ShapeError, UnsupportedError: for less than 2 dimensions, or another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://proceedings.mlr.press/v9/glorot10a.html
    """
    fan_in, fan_out = _fans("xavier_normal_", tensor)
    return random.normal_(tensor, 0.0, _xavier_std(gain, fan_in + fan_out), generator=generator)


def _kaiming_std(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: Any) -> float | None:
    """gain / sqrt(fan); None for a tensor without elements."""
    check_tensor(name, tensor=tensor)
    if 0 in tensor.shape:
        warnings.warn(f"{name}: tensor.shape is {tuple(tensor.shape)}, without elements to initialise", stacklevel=4)
        return None
    fans = dict(zip(("fan_in", "fan_out"), _fans(name, tensor)))
    check(name, str(mode).lower() in fans, lambda: f"mode is {mode!r}, expected 'fan_in' or 'fan_out'")
    return rounding.div(_gain(name, nonlinearity, a), rounding.sqrt(float(fans[mode.lower()])))


@torch.no_grad()
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with uniform numbers in [-bound, bound), bound = sqrt(3) * (gain / sqrt(fan)); returns the tensor.

    Raises:
        ShapeError, UnsupportedError: for less than 2 dimensions, another `mode` or another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://arxiv.org/abs/1502.01852
    """
    std = _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = rounding.mul(rounding.sqrt(3.0), std)
    return random.uniform_(tensor, -bound, bound, generator=generator)


@torch.no_grad()
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers, std = gain / sqrt(fan); returns the tensor.

    Raises:
        ShapeError, UnsupportedError: for less than 2 dimensions, another `mode` or another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://arxiv.org/abs/1502.01852
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return tensor if std is None else random.normal_(tensor, 0.0, std, generator=generator)


@torch.no_grad()
def orthogonal_(
    tensor: Tensor,
    gain: float = 1,
    generator: Generator | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times `gain`: `(out, in, ...)`, seen as `(out, in * ...)`.

    The factor Q, with the signs of R's diagonal, of a matrix of normal numbers, any floating-point dtype; for more
    columns than rows that of its transpose. A 16-bit float is computed in float32 and rounded once.

    Raises:
        ShapeError, UnsupportedError: for less than 2 dimensions, or another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://arxiv.org/abs/1312.6120
    """
    name = "orthogonal_"
    order = contract_name(contract)
    check_tensor(name, tensor=tensor)
    check(name, tensor.dim() >= 2, lambda: f"tensor.dim() is {tensor.dim()}, expected 2 or more")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    single = torch.empty((rows, columns), dtype=_single(name, tensor), device=tensor.device)
    drawn = random.normal_(single, generator=generator)
    q = orthogonal_columns(drawn.t().contiguous() if rows < columns else drawn, order)
    q = ops.mul(q.t() if rows < columns else q, gain, contract=order)
    return tensor.copy_(ops.cast(q.reshape(tensor.shape), tensor.dtype))


def _single(name: str, tensor: Tensor) -> torch.dtype:
    """The dtype of the arithmetic: float32 for 16-bit floats."""
    takes(name, "normal", tensor.dtype)
    return torch.float32 if tensor.dtype.itemsize == 2 else tensor.dtype


@torch.no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, and `ceil(sparsity * rows)` elements of each column with 0.

    Which ones are the first of `repdl.random.randperm(rows)`, drawn for each column after the normal numbers.

    Raises:
        ShapeError, OutOfRangeError, UnsupportedError: for another than 2 dimensions, a `sparsity` that is not in
            [0, 1], or another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.sparse_
    """
    check_tensor("sparse_", tensor=tensor)
    check_dim("sparse_", 2, tensor=tensor)
    check_range("sparse_", 0 <= sparsity <= 1, lambda: f"sparsity is {sparsity}, expected 0 to 1")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    random.normal_(tensor, 0.0, std, generator=generator)
    zeros = math.ceil(sparsity * rows)
    for column in range(columns):
        tensor[random.randperm(rows, generator=generator, device=tensor.device)[:zeros], column] = 0
    return tensor


def reset_affine(weight: Tensor, bias: Tensor | None, generator: Generator) -> None:
    """The default initialisation of torch's Linear and convolutions: uniform in [-b, b), b = 1 / sqrt(fan_in)."""
    kaiming_uniform_(weight, a=rounding.sqrt(5.0), generator=generator)
    if bias is not None:
        fan_in, _ = _fans("reset_parameters", weight)
        if fan_in > 0:
            bound = rounding.div(1.0, rounding.sqrt(float(fan_in)))
            uniform_(bias, -bound, bound, generator=generator)


def _deprecated(function: Callable[..., Tensor]) -> None:
    """The name without an underscore that torch gave a function first."""
    name = function.__name__[:-1]

    def called(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"{name} is deprecated, as in torch; call {name}_", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"`{name}_`, under the name that torch gave it first."
    globals()[name] = called


for _name in [name for name in __all__ if name.endswith("_") and hasattr(torch.nn.init, name[:-1])]:
    _deprecated(globals()[_name])

if not TYPE_CHECKING:
    __getattr__ = left_out.attribute("nn.init")
