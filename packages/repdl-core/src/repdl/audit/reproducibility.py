"""Whether a call of an op is reproducible: by the class of the op, and for some ops by the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from repdl.audit import collectives
from repdl.audit.collectives import is_collective
from repdl.audit.op_classes import OpClass, class_of, plain_name
from repdl.dtypes import FLOATS_16_BIT
from repdl.registry import OPS
from repdl.tensors.nested import tensors_among


class Reproducibility(Enum):
    """Whether the bits of a call are the same everywhere; only `DRAWN` and `REFUSED` differ between machines."""

    REGISTERED = "registered"
    MOVED = "moves data"
    EXACT = "exact"
    ROUNDED = "one rounding"
    DRAWN = "torch's random numbers"
    REFUSED = "not reproducible"

    @property
    def ok(self) -> bool:
        """Whether the bits are the same on every machine."""
        return self not in (Reproducibility.DRAWN, Reproducibility.REFUSED)


@dataclass(frozen=True)
class Classification:
    """What is known of the bits of a call, and why."""

    reproducibility: Reproducibility
    reason: str


Arguments = Mapping[str, Any]
Condition = Callable[[Arguments, Any], "str | None"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FLOATS = (torch.float32, torch.float64, *FLOATS_16_BIT)
_DEVICES = ("cpu", "cuda", "meta")
COMPLEX = "computes with complex numbers; registered ops take their real and imaginary parts"
_SIGN_OF_ZERO = "the processor decides which of +0 and -0 it gives"
_ZEROS = _names("relu clamp clamp_min clamp_max hardtanh max maximum min minimum fmax fmin amax amin aminmax")
REASONS = {
    OpClass.MOVES: "moves data",
    OpClass.EXACT: "exact",
    OpClass.INTEGER: "exact for integers",
    OpClass.ROUNDS: "one rounding of IEEE 754",
    OpClass.DRAWS: "draws from torch's generator, whose numbers depend on device, version and threads",
    OpClass.REFUSED: "no contract gives its roundings and their order",
}


def unknown(name: str) -> str:
    """What is said of an op that is in no table, by its name, `namespace::op`."""
    if is_collective(name):
        return collectives.reason(name)
    return "not in the table of torch's ops (docs/torch-ops.md): nothing is known of it"


def classify(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Classification:
    """What is known of the bits of a call of an op, which gave `result`."""
    if is_registered(op):
        return Classification(Reproducibility.REGISTERED, "an op of the registry")
    if op.name().startswith("profiler::"):
        return Classification(Reproducibility.MOVED, "a mark for torch's profiler, which optimizers set, too")
    if is_collective(op.name()) and collectives.moves(op.name()):
        return Classification(Reproducibility.MOVED, REASONS[OpClass.MOVES])
    name = plain_name(op)
    op_class = class_of(name)
    if op_class is None:
        return Classification(Reproducibility.REFUSED, unknown(op.name()))
    if op_class is OpClass.DRAWS:
        return Classification(Reproducibility.DRAWN, REASONS[op_class])
    arguments = dict(zip((a.name for a in op._schema.arguments), args)) | dict(kwargs)
    if name in _ONCE and _ONCE[name](arguments):
        op_class = OpClass.ROUNDS
    if op_class is OpClass.REFUSED:
        return Classification(Reproducibility.REFUSED, REASONS[op_class])
    tensors = [*tensors_among(arguments.values()), *tensors_among((result,))]
    return _classify_known(name, op_class, arguments, tensors, result)


def _classify_known(
    name: str, op_class: OpClass, arguments: Arguments, tensors: list[torch.Tensor], result: Any
) -> Classification:
    numeric = {t.dtype for t in tensors}
    fractional = any(dtype.is_floating_point or dtype.is_complex for dtype in numeric)
    if op_class is OpClass.INTEGER and fractional:
        return Classification(Reproducibility.REFUSED, _SIGN_OF_ZERO if name in _ZEROS else REASONS[OpClass.REFUSED])
    condition = CONDITIONS.get(name)
    problem = None if condition is None else condition(arguments, result)
    if op_class is OpClass.EXACT and any(d.is_complex for d in numeric) and name not in _ON_COMPLEX:
        problem = COMPLEX
    if op_class is OpClass.ROUNDS and fractional and problem is None:
        converts = name in _CONVERSIONS
        if converts and len(numeric) == 1:
            op_class = OpClass.MOVES
        else:
            problem = _rounding_problem(tensors, converts)
    if problem is not None:
        return Classification(Reproducibility.REFUSED, problem)
    reproducibility = {OpClass.MOVES: Reproducibility.MOVED, OpClass.ROUNDS: Reproducibility.ROUNDED}.get(
        op_class, Reproducibility.EXACT
    )
    if op_class is OpClass.ROUNDS and not fractional:
        return Classification(Reproducibility.EXACT, REASONS[OpClass.INTEGER])
    return Classification(reproducibility, REASONS[op_class])


def is_registered(op: Any) -> bool:
    """Whether an op is RepDL's own, or one of another project in its registry."""
    if not isinstance(op, OpOverload):
        return False
    if op.namespace == "repdl":
        return True
    known = OPS.get(op._opname)
    return known is not None and known.overload is op


# What torch's arithmetic gives once, as IEEE 754 says.


def _rounding_problem(tensors: Iterable[torch.Tensor], converts: bool) -> str | None:
    """Why an operation of one rounding on these tensors is none after all, or None."""
    for tensor in tensors:
        dtype = tensor.dtype
        if dtype.is_complex:
            return COMPLEX
        if dtype.is_floating_point and dtype not in _FLOATS:
            return f"computes in {_shown(dtype)}"
        if tensor.layout is not torch.strided:
            return f"computes with tensors of layout {str(tensor.layout).removeprefix('torch.')}"
        if tensor.device.type not in _DEVICES:
            return f"nothing is known of the arithmetic of {tensor.device.type}"
    if not converts:
        dtypes = {t.dtype for t in tensors if t.dtype.is_floating_point}
        if len(dtypes) > 1 and dtypes & {*FLOATS_16_BIT}:
            return f"computes with {' and '.join(sorted(_shown(d) for d in dtypes))}, rounded in an order of torch's"
    if not is_ieee():
        return "this thread flushes subnormal numbers or does not round to nearest, and torch's ops follow it"
    return None


# Not constants in a function, where the compiler of Python would compute with them.
_SMALLEST, HALF_STEP, _MOST_OF_A_STEP = 2.0**-1074, 2.0**-53, 1.5 * 2.0**-53


def is_ieee() -> bool:
    """Whether this thread rounds to nearest even and keeps subnormal numbers."""
    one = _SMALLEST * 2.0**1000 * 2.0**74
    return (
        one == 1.0
        and one + HALF_STEP == 1.0
        and -one - HALF_STEP == -1.0
        and one + _MOST_OF_A_STEP > 1.0
        and -one - _MOST_OF_A_STEP < -1.0
    )


def _alpha(arguments: Arguments, result: Any) -> str | None:
    """Of `add`, `sub`, `rsub`."""
    if isinstance(result, torch.Tensor) and not (result.is_floating_point() or result.is_complex()):
        return None
    if arguments.get("alpha", 1) in (0, 1, -1):
        return _scalar(arguments, result)
    return "multiplies by alpha and adds: the processor rounds once or twice"


def _quotient(arguments: Arguments, result: Any) -> str | None:
    """Of `div`."""
    mode, other = arguments.get("rounding_mode"), arguments["other"]
    if mode is not None and result.dtype.is_floating_point:
        return f"div(rounding_mode={mode!r}) rounds more than once"
    number = other if isinstance(other, (int, float)) else None
    if number is None and other.dim() == 0 and other.device != result.device:
        number = other.item()
    if number is not None and mode is None and not _is_power_of_two(number):
        return "divides by a scalar: on a GPU torch multiplies by its reciprocal"
    return _scalar(arguments, result)


def _is_power_of_two(number: float) -> bool:
    return (
        number == 0
        or not math.isfinite(number)
        or (abs(math.frexp(number)[0]) == 0.5 and 2**-125 < abs(number) < 2**125)
    )


def _scalar(arguments: Arguments, result: Any) -> str | None:
    """A Python scalar beside 16-bit floats: torch converts it to float32 or to their dtype, by op and device."""
    if isinstance(result, torch.Tensor) and result.dtype in FLOATS_16_BIT:
        for value in (arguments.get("self"), arguments.get("other")):
            if isinstance(value, (int, float)):
                with _disable_current_modes():
                    held = torch.tensor(value, dtype=result.dtype).item()
                if held != value and not math.isnan(value):
                    return f"uses the scalar {value}, which {_shown(result.dtype)} does not hold"
    return None


def _is_square(arguments: Arguments) -> bool:
    """Of `pow`: whether it is `x * x`, or `x` in its derivative; torch multiplies, on CPUs and GPUs alike."""
    exponent = arguments["exponent"]
    return isinstance(exponent, (int, float)) and exponent in (1, 2)


def _is_apart(arguments: Arguments) -> bool:
    """Of `unfold_backward`: whether windows have no element in common, so that each gets one number."""
    return bool(arguments["step"] >= arguments["size"])


_ONCE: dict[str, Callable[[Arguments], bool]] = {"pow": _is_square, "unfold_backward": _is_apart}
"""What rounds once in some calls, and several times in others."""


def _range(arguments: Arguments, result: Any) -> str | None:
    """Of `arange` and `range`."""
    if not result.dtype.is_floating_point:
        given = [arguments.get(n, 0) for n in ("start", "end", "step")]
        whole = all(isinstance(n, (int, torch.SymInt)) or (n.is_integer() and abs(n) <= 2**53) for n in given)
        return None if whole else "computes integers from floating-point numbers"
    exact = 2 / torch.finfo(result.dtype).eps
    for name in ("start", "step", "end"):
        value = float(arguments.get(name, 0))
        if (name != "end" and not value.is_integer()) or abs(value) > exact:
            return "computes start + i * step: the processor rounds once or twice"
    return None


def _conversion(arguments: Arguments, result: Any) -> str | None:
    """Of `_to_copy` and `copy`: what differs is a number beyond the integers, and float64 to a 16-bit float."""
    sources = list(tensors_among((arguments.get("src", arguments.get("self")),)))
    for source, made in zip(sources, tensors_among((result,))):
        if source.dtype is torch.float64 and made.dtype in FLOATS_16_BIT:
            return f"rounds float64 to float32 and then to {_shown(made.dtype)}, or once, as the device does it"
        if not source.dtype.is_floating_point or made.dtype.is_floating_point or made.dtype.is_complex:
            continue
        if made.dtype is not torch.bool and _is_real(source):
            with _disable_current_modes(), torch.no_grad():
                limits, values = torch.iinfo(made.dtype), source.detach().trunc().double()
                if not bool(((values >= limits.min) & (values < limits.max + 1.0)).all()):
                    return f"converts numbers that {_shown(made.dtype)} does not hold, or NaN: undefined in C++"
    return None


# Where several values would go to one index.


def _writes(arguments: Arguments, result: Any) -> str | None:
    """Of `index_put` and `put`."""
    indices, values = arguments.get("indices", arguments.get("index")), arguments.get("values", arguments.get("source"))
    if arguments.get("accumulate", False):
        if not values.dtype.is_floating_point:
            return None
        if _is_mask(indices):
            return _rounding_problem((arguments["self"], values), False)
        return "sums the values of equal indices in an order of torch's"
    if values.numel() == 1 or not all(_is_real(i) for i in tensors_among((indices,))):
        return None
    with _disable_current_modes(), torch.no_grad():
        target = arguments["self"]
        flat = torch.arange(target.numel(), device=target.device).view(target.shape)
        reached = (
            flat[tuple(slice(None) if i is None else i for i in indices)]
            if isinstance(indices, (list, tuple))
            else flat.take(indices)
        )
        return _repeated(reached.flatten(), 0)


def _is_mask(indices: Any) -> bool:
    """Whether indices are one mask, which reaches no element twice."""
    given = [index for index in indices if index is not None] if isinstance(indices, (list, tuple)) else []
    return len(given) == 1 and given[0].dtype is torch.bool


def _copies_by_index(arguments: Arguments, result: Any) -> str | None:
    """Of `index_copy`."""
    index = arguments["index"]
    return _repeated(index.flatten(), 0) if _is_real(index) else None


def _scatters(arguments: Arguments, result: Any) -> str | None:
    """Of `scatter`."""
    if arguments.get("reduce") is not None:
        return REASONS[OpClass.REFUSED] if result.dtype.is_floating_point else None
    index = arguments["index"]
    return _repeated(index, arguments["dim"]) if "src" in arguments and _is_real(index) and index.dim() else None


def _repeated(index: torch.Tensor, dim: int) -> str | None:
    """A reason, if an index is twice in a row along `dim`."""
    with _disable_current_modes(), torch.no_grad():
        ordered = index.detach().sort(dim).values
        length = ordered.shape[dim]
        twice = length > 1 and bool((ordered.narrow(dim, 1, length - 1) == ordered.narrow(dim, 0, length - 1)).any())
    return "writes several values to one index; which of them stays is undefined" if twice else None


def _is_stable(arguments: Arguments, result: Any) -> str | None:
    """Of `sort`."""
    return None if arguments.get("stable") else "the order of equal values is not fixed without stable=True"


def _to_integers(arguments: Arguments, result: Any) -> str | None:
    """Of `round`."""
    return "multiplies and divides by a power of ten" if arguments.get("decimals", 0) else None


CONDITIONS: dict[str, Condition] = {
    **dict.fromkeys(("add", "sub", "rsub"), _alpha),
    **dict.fromkeys(("mul", "reciprocal"), _scalar),
    "div": _quotient,
    **dict.fromkeys(("arange", "range"), _range),
    **dict.fromkeys(("_to_copy", "copy", "_foreach_copy"), _conversion),
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put", "put"), _writes),
    "index_copy": _copies_by_index,
    "scatter": _scatters,
    "sort": _is_stable,
    "round": _to_integers,
}
BY_PLACE = frozenset({"index_copy", "index_put", "_index_put_impl", "_unsafe_index_put", "put", "scatter", "sort"})
"""Those of `CONDITIONS` on which the result depends for integers, too."""
_CONVERSIONS = frozenset({"_to_copy", "copy", "_foreach_copy"})
_ON_COMPLEX = _names("eq ne equal all any where isnan isinf nonzero count_nonzero neg isin")


def _shown(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_real(tensor: torch.Tensor) -> bool:
    """Whether values can be read."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_meta


__all__ = [
    "BY_PLACE",
    "COMPLEX",
    "CONDITIONS",
    "FLOATS_16_BIT",
    "REASONS",
    "Classification",
    "Reproducibility",
    "classify",
    "is_ieee",
    "is_registered",
    "unknown",
]
