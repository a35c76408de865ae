"""Torch's own kernels, called where an op has another one now."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import _C

Function = Callable[..., Any]
ABOVE, BELOW = "TESTING_ONLY_GenericMode", "Fake"
"""Keys of the dispatcher that no tensor has, above the transforms of torch.func and below autograd, which torch keeps
for others and does not use itself: what is put there is met by the threads that include them alone (`within.py`)."""
UNREACHED = frozenset({"Meta", ABOVE, BELOW})
"""Keys of the dispatcher that calls of tensors with memory do not come to, where no converted model is called."""
_BELOW = _C._dispatch_key_parse(BELOW)
_BOTH = _C.DispatchKeySet(_C._dispatch_key_parse(ABOVE)) | _C.DispatchKeySet(_BELOW)


def is_within() -> bool:
    """Whether this thread computes torch's ops by RepDL now, for a converted model."""
    return _C._dispatch_tls_is_dispatch_key_included(_BELOW)


def overload(name: str) -> Any:
    """The op of a name such as `aten::add.Tensor`."""
    namespace, _, rest = name.partition("::")
    packet, _, which = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), which or "default")


def is_composed(name: str, device: str) -> bool:
    """Whether torch's dispatcher composes an op of others on a device.

    One that has a kernel for the device, or for every device, runs that, though it could be composed too.
    """
    has = functools.partial(_C._dispatch_has_kernel_for_dispatch_key, name)
    return has("CompositeImplicitAutograd") and not any(map(has, (device, *_EVERY_DEVICE)))


_EVERY_DEVICE = "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"


def forget_kernels() -> None:
    """What torch's Python keeps of where an op's kernels are, once there are others: it would call one that is gone."""
    for op in list(torch._ops.get_cached_ops()):
        op._dispatch_cache.clear()
    torch._ops.reset_cached_ops()


class TorchKernel:
    """The kernel that torch had for an op at a key of its dispatcher, before another one was put there.

    At `ABOVE` and `BELOW` it is the next one on the way of the call.
    """

    def __init__(self, op: Any, key: str) -> None:
        place = _C._dispatch_key_parse(key)
        self.op = op
        self._after = _C._dispatch_keyset_full_after(place) if key in (ABOVE, BELOW) else None
        self.boxed = self._next if self._after is not None else torch.library.get_kernel(op, place).call_boxed
        self._tensors = [i for i, a in enumerate(op._schema.arguments) if str(a.type) == "Tensor" and not a.kwarg_only]
        self._keys = _C.DispatchKeySet(place)
        self.fast = self.boxed if len(self._tensors) < 2 else self.given
        """`given`, or less where no argument of the op can be a number in a tensor's place."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._after is not None:
            with _C._AutoDispatchBelowAutograd(), _C._ExcludeDispatchKeyGuard(_BOTH):
                return self.op(*args, **kwargs)
        return self.call(self._keys, args, kwargs)

    def _next(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        return self.op.redispatch(keyset & self._after, *args, **kwargs)

    def given(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """`call`, as the dispatcher calls."""
        return self.call(keyset, args, kwargs)

    def call(self, keyset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, for the keys that the dispatcher gave."""
        for i in self._tensors:
            if i < len(args) and not isinstance(args[i], torch.Tensor):
                args = (*args[:i], _tensor(args[i], args), *args[i + 1 :])
        return self.boxed(keyset, *args, **kwargs)


def _tensor(value: Any, args: tuple[Any, ...]) -> Any:
    """A tensor of a number, which the dispatcher takes out of the tensor that torch's parser had made of it."""
    dtypes = tuple(a.dtype for a in args if isinstance(a, torch.Tensor))
    if type(value) is int and not (_C._len_torch_dispatch_stack() or _C._are_functorch_transforms_active()):
        return _whole(value, dtypes)  # nobody writes there
    return _made(value, dtypes)


def _made(value: Any, dtypes: tuple[torch.dtype, ...]) -> torch.Tensor:
    made = torch.scalar_tensor(value, dtype=_DTYPES[type(value)])
    for dtype in dtypes:
        if torch.result_type(torch.empty(0, dtype=dtype), value) is dtype:
            return made.to(dtype)  # which the result has
    return made.to(torch.get_default_dtype()) if type(value) is float else made


@functools.lru_cache(maxsize=256)
def _whole(value: int, dtypes: tuple[torch.dtype, ...]) -> torch.Tensor:
    with torch.inference_mode(False):
        return _made(value, dtypes)


_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}

__all__ = ["ABOVE", "BELOW", "UNREACHED", "TorchKernel", "forget_kernels", "is_composed", "is_within", "overload"]
