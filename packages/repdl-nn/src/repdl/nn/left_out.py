"""What torch.nn has and RepDL leaves out, each with the reason that the error says.

A layer stands for itself in `isinstance`, as programs ask for it, and raises when it is made; other names raise when
they are reached. Neither is ever torch's own, whose bits no contract gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from repdl.errors import UnsupportedError

_GENERATOR = "is left out: its windows are drawn by torch's generator"
_PARALLEL = "is left out: it sums gradients in an order that depends on how many devices there are"
_QUANTIZED = "is left out: RepDL has no quantised arithmetic"
_LINEAR_LOSS = "is left out; Linear and CrossEntropyLoss compute the same"
_LOW_PRECISION = "is left out: RepDL has no products of scaled or grouped low-precision matrices; use repdl.ops.mm"
_CONTAINER = "holds torch's own classes; import them from repdl.nn"
_RECURRENT = "is the base of RNN, LSTM and GRU; use one of them"
_BY_AUTOGRAD = "is left out: torch.autograd.grad of repdl.nn.functional.conv1d, conv2d and conv3d computes the same"

LAYERS: Mapping[str, str] = {
    "CrossMapLRN2d": "is left out; LocalResponseNorm computes the same",
    "FractionalMaxPool2d": _GENERATOR,
    "FractionalMaxPool3d": _GENERATOR,
    "LinearCrossEntropyLoss": _LINEAR_LOSS,
    "RNNBase": _RECURRENT,
}
"""Layers of torch.nn that deliberately have no counterpart."""

CLASSES: Mapping[str, str] = {
    **LAYERS,
    "DataParallel": _PARALLEL,
    "DistributedDataParallel": "is torch's own: wrap the model by torch.nn.parallel.DistributedDataParallel, and call "
    "repdl.enable()",
    "NLLLoss2d": "is left out; NLLLoss computes the same",
    "RNNCellBase": "is the base of RNNCell, LSTMCell and GRUCell; use one of them",
}
"""Classes that stand for torch's in `isinstance`."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "nn": {
        "LinearCrossEntropyOptions": _LINEAR_LOSS,
        "attention": "is left out: it chooses among torch's kernels; RepDL has one contract and no choice to make",
        "grad": _BY_AUTOGRAD,
        **dict.fromkeys(("intrinsic", "qat", "quantizable", "quantized"), _QUANTIZED),
    },
    "nn.modules": {
        "LinearCrossEntropyOptions": _LINEAR_LOSS,
        **dict.fromkeys(("channelshuffle", "container", "flatten", "module", "pixelshuffle"), _CONTAINER),
        "linear_cross_entropy_options": _LINEAR_LOSS,
        "rnn": "is repdl.nn.modules.recurrent",
    },
    "nn.functional": {
        "assert_int_or_pair": "is a check of torch's own",
        "conv_tbc": "is left out; conv1d of input.permute(1, 2, 0) and weight.permute(2, 1, 0) computes the same",
        **dict.fromkeys((f"fractional_max_pool{n}d{s}" for n in (2, 3) for s in ("", "_with_indices")), _GENERATOR),
        "grad": _BY_AUTOGRAD,
        **dict.fromkeys(("scaled_grouped_mm", "scaled_mm", "ScalingType", "SwizzleType"), _LOW_PRECISION),
        "linear_cross_entropy": "is left out; linear and cross_entropy compute the same",
        "pdist": "is left out; cdist(x, x) has its numbers, at torch.triu_indices(n, n, 1)",
    },
    "nn.parallel": dict.fromkeys(
        ("DistributedDataParallelCPU", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"), _PARALLEL
    ),
}
"""Other names of torch's modules."""


class LeftOutError(UnsupportedError, AttributeError):
    """A name of torch.nn that RepDL leaves out."""


class _LeftOut(type):
    """The class of classes that are only asked for."""

    torchs: type
    reason: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(cls.reason)

    def __getattr__(cls, name: str) -> NoReturn:
        raise LeftOutError(f"{cls.reason} (asked for {name})")

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.torchs)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.torchs)


@cache
def stands_for(torchs: type) -> type:
    """A class in the place of `torchs`: for `isinstance` and `issubclass` the same, and never made.

    Raises:
        UnsupportedError: of the class, when it is called or derived from.
    """
    reason = f"{torchs.__name__} {CLASSES[torchs.__name__]}"
    names = {"torchs": torchs, "reason": reason, "__doc__": reason, "__init_subclass__": classmethod(_derived)}
    return _LeftOut(torchs.__name__, (), names)


def _derived(cls: type, /, **kwargs: Any) -> NoReturn:
    raise UnsupportedError(cls.reason)  # type: ignore[attr-defined]


def attribute(module: str) -> Callable[[str], type]:
    """The `__getattr__` of `repdl.<module>`: classes that stand for torch's, and why there are no other names.

    Raises:
        LeftOutError: of the function, for a name that `torch.<module>` has.
        AttributeError: for one that nobody has.
    """

    def get(name: str) -> type:
        if not name.startswith("_"):
            torchs = getattr(import_module(f"torch.{module}"), name, None)
            if name in CLASSES and torchs is not None:
                return stands_for(torchs)
            reason = why(module, name)
            if reason is not None:
                raise LeftOutError(f"repdl.{module}.{name}: torch's {name} {reason}")
        raise AttributeError(f"module 'repdl.{module}' has no attribute {name!r}")

    return get


def why(module: str, name: str) -> str | None:
    """Why `repdl.<module>` has no `name`; None if `torch.<module>` has none either."""
    known = NAMES.get(module, {})
    if name in known:
        return known[name]
    torchs = import_module(f"torch.{module}")
    if not hasattr(torchs, name):
        return None
    if is_interface(torchs, name):
        return "has no counterpart in this version of RepDL"
    return "is no part of torch's interface; import it from where it is defined"


def is_interface(module: ModuleType, name: str) -> bool:
    """Whether a public name of a module of torch is defined there, or in a module below it."""
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        return value.__name__.startswith("torch.nn.")
    owner = getattr(value, "__module__", None)
    return callable(value) and isinstance(owner, str) and owner.startswith("torch.nn.")


__all__ = ["CLASSES", "LAYERS", "NAMES", "LeftOutError", "attribute", "is_interface", "stands_for", "why"]
