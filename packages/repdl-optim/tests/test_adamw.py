"""AdamW: the bits of Adam with decoupled weight decay."""

from __future__ import annotations

import pytest
import torch

from repdl.optim import Adam, AdamW
from repdl.optim.testing import assert_same_state, parameters, train
from repdl.testing import assert_same_bits


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
