"""FSDP2, ZeRO, tensor parallelism and distributed checkpoints under `repdl.enable()`: one digest in all settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import ranks
import sharded_programs as programs
import torch
from sharded_programs import Setting, Sharding

import repdl

pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)
BASELINE = {"REPDL_CPU_ISA": "baseline"}
SETTINGS = Setting(), Setting(threads=2, algorithm="gathered", bucket_cap_mb=0.01)


def _digests(
    function: Callable[..., list[str]], world: int, *args: Any, environment: Mapping[str, str] | None = None
) -> set[str]:
    found = ranks.run(function, world, *args, environment=environment, timeout=100.0, limit=280.0)
    assert all(of_rank == found[0] for of_rank in found)
    return {*found[0]}


def _check(function: Callable[..., list[str]], world: int, *args: Any, planted: str = "rotated") -> None:
    """One digest by all settings; another one where reductions are wrong."""
    found = _digests(function, world, *args, *SETTINGS)
    assert len(found) == 1
    wrong = _digests(function, world, *args, SETTINGS[1], Setting(planted=planted), environment=BASELINE)
    assert found < wrong, (found, wrong)


@pytest.mark.parametrize("mixed", [False, True])
def test_fsdp2__one_digest(mixed: bool) -> None:
    """Clipped by the norm of all parameters; with parameters and activations in bfloat16."""
    _check(programs.fsdp2_runs, 3, Sharding(mixed=mixed), planted="rounded" if mixed else "rotated")


def test_fsdp2__steps_of_repdl_optim() -> None:
    """The optimizers of both have one step, whose state is sharded too."""
    for kind in ("AdamW", "SGD"):
        options = {"momentum": 0.9} if kind == "SGD" else {}
        sharding = Sharding(optimizer=kind, options=options)
        found = {ranks.run(programs.fsdp2, 2, Setting(), replace(sharding, ours=ours))[0] for ours in (False, True)}
        assert len(found) == 1, kind


@pytest.mark.nightly
def test_fsdp2__every_optimizer_of_repdl() -> None:
    for found in ranks.run(programs.optimizers, 4, limit=280.0):
        assert all(torchs == ours for torchs, ours in found), found
        assert len(set(found)) == len(programs.OPTIMIZERS)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "sharding",
    [
        Sharding(replicas=2),
        Sharding(replicas=2, mixed=True),
        Sharding(accumulate=3),
        Sharding(reshard=False, mixed=True, accumulate=2),
        Sharding(optimizer="Adam", options={"amsgrad": True, "foreach": False}),
    ],
    ids=str,
)
def test_fsdp2__one_digest_of_each(sharding: Sharding) -> None:
    in_pairs = sharding.replicas == 2  # sums of two ranks have no order
    _check(programs.fsdp2_runs, 4, sharding, planted="rounded" if sharding.mixed or in_pairs else "rotated")


def test_zero__one_digest() -> None:
    _check(programs.zero_runs, 3)


def test_tensor_parallel__one_digest() -> None:
    _check(programs.tensor_parallel_runs, 3)


@pytest.mark.nightly
def test_tensor_parallel__of_replicas() -> None:
    _check(programs.replicated_tensor_parallel_runs, 4, planted="rounded")


def test_dtensors__arithmetic() -> None:
    for wrong in ranks.run(programs.arithmetic, 3):
        assert wrong == []


def test_dtensors__plans_do_not_depend_on_the_hosts() -> None:
    """How many devices each has would change what a redistribution costs, and so which one is chosen."""
    from torch.distributed.device_mesh import _mesh_resources

    with patch.object(torch.cuda, "device_count", lambda: 8):
        assert _mesh_resources.num_devices_per_host("cuda") == 8
        with repdl.enabled():
            assert _mesh_resources.num_devices_per_host("cuda") == 1
        assert _mesh_resources.num_devices_per_host("cuda") == 8


@pytest.mark.parametrize("world", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_checkpoint__another_number_of_ranks(world: int, tmp_path: Path) -> None:
    saved = ranks.run(programs.checkpointed, 2, str(tmp_path), True, limit=280.0)
    assert ranks.run(programs.checkpointed, world, str(tmp_path), False, limit=280.0) == [saved[0]] * world
