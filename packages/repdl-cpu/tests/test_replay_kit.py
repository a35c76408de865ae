"""Whether calls are repeated at all: the native module that does it, and the variable that switches it off."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from repdl.callcache import c_extension
from repdl.testing import processes

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


def test_replay__a_module_of_an_older_kit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(__name__="old_backend", Call=object, Recording=object)
    monkeypatch.setattr("repdl.callcache.extension.entry_points", lambda group: [SimpleNamespace(load=lambda: old)])
    with pytest.warns(UserWarning, match="old_backend was built for another repdl-core"):
        assert c_extension.__wrapped__() is None


WITHOUT = """
import torch, repdl
a, w = torch.full((3, 4), 0.3), torch.nn.Parameter(torch.full((5, 4), 0.7))
def step():
    y = repdl.ops.gelu(repdl.ops.linear(a, w))
    (grad,) = torch.autograd.grad(y, w, torch.ones_like(y))
    with torch.no_grad():
        w.sub_(grad)
    return w.tolist()
results = [step() for _ in range(5)]
count = getattr(repdl.ops.linear, "recordings", None)
with repdl.enabled():
    results += [step() for _ in range(5)]
print(count, results)
"""


def test_replay__switched_off_by_the_environment() -> None:
    said = {}
    for value in ("1", "0"):
        environment = os.environ | {"REPDL_CALL_CACHE": value}
        said[value] = processes.python("-c", WITHOUT, environment=environment).stdout.split(" ", 1)
    assert said["0"][0] == "None" and int(said["1"][0]) > 0
    assert said["0"][1] == said["1"][1]
