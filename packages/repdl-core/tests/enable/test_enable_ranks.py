"""`repdl.enable`: several ranks are refused, by an error that says so, and what works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from repdl.audit.judge import is_collective
from repdl.audit.remedy import remedy

_CHILD = r"""
import json, sys, warnings
import torch, repdl
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

warnings.simplefilter("ignore")
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
group, x = dist.group.WORLD, torch.ones(3)
before = DistributedDataParallel(torch.nn.Linear(3, 2))
for _ in range(3):
    before(torch.ones(4, 3)).sum().backward()
calls = {
    "DistributedDataParallel": lambda: DistributedDataParallel(torch.nn.Linear(3, 2)),
    "made before": lambda: before(torch.ones(4, 3)).sum().backward(),
    "all_reduce": lambda: dist.all_reduce(x),
    "integers": lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64)),
    "coalesced": lambda: dist.all_reduce_coalesced([x]),
    "broadcast": lambda: dist.broadcast(x, 0),
    "barrier": lambda: dist.barrier(),
    "all_gather": lambda: dist.all_gather([torch.empty(3)], x),
    "gather": lambda: dist.gather(x, [torch.empty(3)], 0),
    "scatter": lambda: dist.scatter(torch.empty(3), [x], 0),
    "reduce": lambda: dist.reduce(x, 0),
    "reduce_scatter": lambda: dist.reduce_scatter(torch.empty(3), [x]),
    "all_to_all": lambda: dist.all_to_all_single(torch.empty(3), x),
    "objects": lambda: dist.all_gather_object([None], {"a": 1}),
    "functional": lambda: functional.all_reduce(x, "sum", group).sum(),
}
told = {}
with repdl.enabled():
    for name, call in calls.items():
        try:
            call()
            told[name] = "nothing"
        except repdl.UnsupportedError as error:
            told[name] = str(error)
    model = torch.nn.Linear(3, 2)
    model(torch.ones(4, 3)).sum().backward()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with repdl.enabled(on_uncovered="warn"):
        dist.all_reduce(x)
told["warned"] = " ".join(str(w.message) for w in caught)
print(json.dumps(told))
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_enable__several_ranks_are_not_supported_yet(tmp_path: Path) -> None:
    """In a group of one, too, whether a model was wrapped before or not; the model itself trains."""
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert len(told) == 16
    for name, message in told.items():
        assert "several ranks (torch.distributed, DistributedDataParallel) are not supported yet" in message, name
        assert "run the program as one process, with the model itself" in message, name
        assert "use repdl" not in message and "nothing is known" not in message, name


def test_enable__no_op_of_ranks_has_another_advice() -> None:
    names = [name for name in torch._C._dispatch_get_all_op_names() if is_collective(name)]
    spaces = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert {space for space in spaces if "c10d" in space} <= {name.partition("::")[0] for name in names}
    for name in names:
        space, _, rest = name.partition("::")
        packet: Any = getattr(getattr(torch.ops, space), rest.partition(".")[0])
        assert remedy(getattr(packet, packet.overloads()[0]), "gather", "") is None, name
