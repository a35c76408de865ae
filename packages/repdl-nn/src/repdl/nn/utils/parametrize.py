"""torch's own parametrizations of modules, which compute what the modules given to them compute."""

from __future__ import annotations

from torch.nn.utils.parametrize import (
    ParametrizationList,
    cached,
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
    transfer_parametrizations_and_params,
    type_before_parametrizations,
)

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
