"""AdamW: torch's arguments, defaults and state dict, and the bits of Adam with decoupled weight decay."""

from __future__ import annotations

import inspect

import pytest
import torch

from repdl.errors import UnsupportedError
from repdl.optim import Adam, AdamW
from repdl.optim.testing import assert_same_state, parameters, train
from repdl.testing import assert_same_bits


def test_adamw__signature_and_defaults_are_torchs() -> None:
    theirs = inspect.signature(torch.optim.AdamW).parameters
    mine = inspect.signature(AdamW).parameters
    for one, other in zip(mine.values(), theirs.values(), strict=True):
        assert (one.name, one.default, one.kind) == (other.name, other.default, other.kind)
    optimizer, reference = AdamW(parameters()), torch.optim.AdamW(parameters())
    assert isinstance(optimizer, torch.optim.AdamW)
    assert optimizer.defaults == reference.defaults
    assert optimizer.state_dict() == reference.state_dict()


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adamw__is_adam_with_decoupled_weight_decay(amsgrad: bool) -> None:
    mine, other = parameters(), parameters()
    optimizer = AdamW(mine, lr=0.02, amsgrad=amsgrad)
    reference = Adam(other, lr=0.02, weight_decay=1e-2, amsgrad=amsgrad, decoupled_weight_decay=True)
    for target, params in ((optimizer, mine), (reference, other)):
        train(target, params, range(3))
    for a, b in zip(mine, other):
        assert_same_bits(a, b)


def test_adamw__near_torch_and_state_dicts_fit() -> None:
    mine, other = parameters(), parameters()
    optimizer, theirs = AdamW(mine, lr=0.02, weight_decay=0.3), torch.optim.AdamW(other, lr=0.02, weight_decay=0.3)
    train(optimizer, mine, range(5))
    train(theirs, other, range(5))
    for a, b in zip(mine, other):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    theirs.load_state_dict(optimizer.state_dict())
    fresh = AdamW(parameters())
    fresh.load_state_dict(theirs.state_dict())
    assert_same_state(fresh.state_dict(), optimizer.state_dict())


def test_adamw__refuses_what_adam_refuses() -> None:
    for option in ("capturable", "differentiable"):
        with pytest.raises((UnsupportedError, RuntimeError), match="capturable|differentiable"):
            AdamW(parameters(), **{option: True})
