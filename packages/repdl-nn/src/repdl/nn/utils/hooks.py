"""torch's hooks that compute a weight before each call, and the reproducible ones that take their place."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import prune as torch_prune
from torch.nn.utils.spectral_norm import SpectralNorm as _SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm as _WeightNorm

from repdl.nn.utils import prune
from repdl.nn.utils.spectral_norm import SpectralNorm
from repdl.nn.utils.weight_norm import WeightNorm

COUNTERPARTS: dict[type, type] = {
    _SpectralNorm: SpectralNorm,
    _WeightNorm: WeightNorm,
    **{getattr(torch_prune, c.__name__): c for c in vars(prune).values() if prune.is_method(c)},
}


def known(hook: Any) -> bool:
    """Whether a hook of torch has a counterpart."""
    return type(hook) in COUNTERPARTS


def convert(module: torch.nn.Module, contract: str | None) -> None:
    """Let the hooks of a module, in place, be the counterparts; they keep all they hold."""
    for hook in list(module._forward_pre_hooks.values()):
        for each in (hook, *getattr(hook, "_pruning_methods", ())):
            if known(each):
                each.__class__ = COUNTERPARTS[type(each)]
        if isinstance(hook, (SpectralNorm, WeightNorm)) and contract is not None:
            hook.contract = contract
        if isinstance(hook, WeightNorm):  # which has left a weight of torch's
            hook(module, None)


__all__ = ["COUNTERPARTS", "convert", "known"]
