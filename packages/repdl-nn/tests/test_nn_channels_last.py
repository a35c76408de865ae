"""Training in channels last: torch's layout on the way, and the bits of training row-major."""

from __future__ import annotations

import copy

import torch

import repdl
from repdl.testing import uniform

LAST = torch.channels_last


def test_channels_last__training_has_the_same_bits_compiled_or_not() -> None:
    nn = torch.nn
    plain = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(100, 3),
    )  # fmt: skip
    x, y = uniform(1, 4, 3, 16, 16), torch.tensor([0, 1, 2, 0])
    digests, kept = set(), []
    for form, compiled in ((torch.contiguous_format, False), (LAST, False), (LAST, True)):
        model = repdl.from_torch_module(copy.deepcopy(plain)).to(memory_format=form)
        optimizer = repdl.optim.Adam(model.parameters())
        run = torch.compile(model, backend="aot_eager", dynamic=True) if compiled else model
        for batch in (4, 3):
            optimizer.zero_grad()
            repdl.nn.functional.cross_entropy(run(x[:batch].to(memory_format=form)), y[:batch]).backward()
            optimizer.step()
        digests.add(repdl.digest(model))
        kept.append([m(x.to(memory_format=form)).is_contiguous(memory_format=LAST) for m in (model[0], model[:4])])
    assert len(digests) == 1
    assert kept == [[False, False], [True, True], [True, True]]
