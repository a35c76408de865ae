"""Programs whose parameters, optimizer state or layers are shared among ranks, as people write them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import repdl
from repdl.distributed import algorithms
from repdl.registry import functions

VOCABULARY, LENGTH, WIDTH, HEADS = 36, 12, 24, 12


@dataclass(frozen=True)
class Setting:
    """What may not change a bit, threads, algorithm, sizes of buckets, and what must, a planted mistake.

    Of those "rotated" has another order of ranks, and "rounded" rounds to bfloat16: sums of few such numbers are exact
    in any order.
    """

    threads: int = 1
    algorithm: str | None = None
    bucket_cap_mb: float = 25.0
    planted: str | None = None


@dataclass(frozen=True)
class Sharding:
    """Of a run by FSDP2."""

    mixed: bool = False
    replicas: int = 1
    accumulate: int = 1
    reshard: bool = True
    optimizer: str = "AdamW"
    ours: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


class Attention(nn.Module):
    """Of the heads that a rank has."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = *x.shape[:2], -1, WIDTH // HEADS
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp, self.dropout = Attention(), MLP(), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.n1(x))
        return x + self.dropout(self.mlp(self.n2(x)))


class GPT(nn.Module):
    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens, self.blocks = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList(Block(dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@contextlib.contextmanager
def setting(chosen: Setting) -> Any:
    """Of a run; the model's and the data's numbers begin at one seed."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(chosen.threads)
    with contextlib.ExitStack() as stack:
        if chosen.algorithm is not None:
            wanted = getattr(algorithms, chosen.algorithm)
            stack.enter_context(patch.object(algorithms, "choose", lambda transport, flat: wanted))
        if chosen.planted is not None:
            stack.enter_context(patch.object(algorithms, "reduce_ranks", _wrong(chosen.planted)))
        stack.enter_context(repdl.enabled())
        torch.manual_seed(0)
        yield


def _wrong(planted: str) -> Any:
    reduce = algorithms.reduce_ranks

    def wrong(ranks: torch.Tensor, op: str, output: torch.Tensor) -> None:
        reduce(ranks.roll(1, 0) if planted == "rotated" else ranks, op, output)
        if planted == "rounded":
            output.copy_(output.bfloat16())

    return wrong


def digest(model: nn.Module) -> str:
    """Of the parameters, whole, which all ranks have the same."""
    whole = {name: _whole(parameter) for name, parameter in model.named_parameters()}
    found = repdl.digest(whole)
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
    assert everyone == [found] * len(everyone), everyone
    return found


def _whole(tensor: Any) -> torch.Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()


def _tokens(steps: int, ranks: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (steps, ranks, 4, LENGTH + 1))


def _loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())


def fsdp2(chosen: Setting, sharding: Sharding) -> str:
    """`fully_shard` of the blocks and the root."""
    rank, world = dist.get_rank(), dist.get_world_size()
    with setting(chosen):
        model = _sharded(sharding)
        package = repdl.optim if sharding.ours else torch.optim
        optimizer = getattr(package, sharding.optimizer)(model.parameters(), lr=1e-2, **sharding.options)
        torch.manual_seed(10 + rank)
        for batches in _tokens(2 * sharding.accumulate, world).split(sharding.accumulate):
            optimizer.zero_grad()
            for i, batch in enumerate(batches):
                model.set_requires_gradient_sync(i == sharding.accumulate - 1)
                (_loss(model, batch[rank]) / sharding.accumulate).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        return digest(model)


def _sharded(sharding: Sharding) -> Any:
    world = dist.get_world_size()
    shape: Any = (world,) if sharding.replicas == 1 else (sharding.replicas, world // sharding.replicas)
    names = ("shards",) if sharding.replicas == 1 else ("replicas", "shards")
    options: dict[str, Any] = {"mesh": init_device_mesh("cpu", shape, mesh_dim_names=names)}
    options["reshard_after_forward"] = sharding.reshard
    if sharding.mixed:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = GPT()
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def fsdp2_runs(sharding: Sharding, *chosen: Setting) -> list[str]:
    """The digests of runs which may differ in nothing."""
    return [fsdp2(one, sharding) for one in chosen]


OPTIMIZERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Adam", {"weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
)


def optimizers() -> list[tuple[str, str]]:
    """The digests of torch's and of ours of each kind; some ranks have no part of a parameter."""
    return [(_stepped(torch.optim, *chosen), _stepped(repdl.optim, *chosen)) for chosen in OPTIMIZERS]


def _stepped(package: Any, kind: str, options: dict[str, Any]) -> str:
    with setting(Setting()):
        model: Any = fully_shard(nn.Sequential(nn.Linear(7, 3), nn.GELU(), nn.Linear(3, 5)))
        optimizer = getattr(package, kind)(model.parameters(), lr=1e-2, **options)
        torch.manual_seed(dist.get_rank())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 7)).square().mean().backward()
            optimizer.step()
        return digest(model)


def zero(chosen: Setting, as_view: bool = False) -> str:
    """DistributedDataParallel, its optimizer's state shared by ZeroRedundancyOptimizer."""
    rank, world = dist.get_rank(), dist.get_world_size()
    with setting(chosen):
        model = DistributedDataParallel(GPT(), bucket_cap_mb=chosen.bucket_cap_mb)
        kind = torch.optim.AdamW
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), optimizer_class=kind, lr=1e-2, parameters_as_bucket_view=as_view
        )
        torch.manual_seed(10 + rank)
        for batch in _tokens(2, world):
            optimizer.zero_grad()
            _loss(model, batch[rank]).backward()
            optimizer.step()
        return digest(model.module)


def zero_runs(*chosen: Setting) -> list[str]:
    """The digests of runs with and without views of buckets."""
    return [zero(one, as_view) for one in chosen for as_view in (False, True)]


def tensor_parallel(chosen: Setting, sequence: bool = True, replicas: int = 1) -> str:
    """Column and row wise layers of a GPT, sequence parallel norms and losses; with replicas, `fully_shard` of it."""
    rank, world = dist.get_rank(), dist.get_world_size()
    with setting(chosen):
        mesh = init_device_mesh("cpu", (replicas, world // replicas), mesh_dim_names=("replicas", "parts"))
        model: Any = GPT(dropout=0.0)
        _parallelize(model, mesh["parts"], sequence)
        if replicas > 1:
            for block in model.blocks:
                fully_shard(block, mesh=mesh["replicas"])
            fully_shard(model, mesh=mesh["replicas"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for batch in _tokens(2, replicas):
            tokens = batch[rank // (world // replicas)]
            optimizer.zero_grad()
            with loss_parallel():
                F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        return digest(model)


def _parallelize(model: GPT, mesh: Any, sequence: bool) -> None:
    rows: Any = Shard(1) if sequence else Replicate()
    whole = PrepareModuleInput(input_layouts=(rows,), desired_input_layouts=(Replicate(),))
    parallelize_module(
        model,
        mesh,
        {
            "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=rows),
            **({"norm": SequenceParallel()} if sequence else {}),
            "head": ColwiseParallel(input_layouts=rows, output_layouts=Shard(-1), use_local_output=False),
        },
    )
    plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
    plan |= {"attention": whole, "mlp": whole, "mlp.up": ColwiseParallel()}
    plan |= {name: RowwiseParallel(output_layouts=rows) for name in ("attention.o", "mlp.down")}
    if sequence:
        plan |= {name: SequenceParallel() for name in ("n1", "n2")}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)


def tensor_parallel_runs(*chosen: Setting) -> list[str]:
    return [tensor_parallel(one) for one in chosen]


def replicated_tensor_parallel_runs(*chosen: Setting) -> list[str]:
    return [tensor_parallel(one, replicas=2) for one in chosen]


def arithmetic() -> list[str]:
    """Which results of DTensors are not those of the contract over the ranks' parts."""
    world, found = dist.get_world_size(), []
    mesh = init_device_mesh("cpu", (world,))
    with setting(Setting()):
        x, number = torch.randn(2 * world, 600), torch.tensor(1.7)
        rows, columns = (distribute_tensor(x, mesh, [Shard(d)]) for d in (0, 1))
        sums = torch.stack([part.sum(0) for part in x.chunk(world)])
        squares = torch.stack([part.norm() ** 2 for part in x.chunk(world)])
        masked = x.clone().requires_grad_()
        (masked.softmax(1) * masked).sum(1).backward(torch.ones(2 * world))
        leaf = rows.detach().requires_grad_()
        (leaf.softmax(1) * leaf).sum(1).backward(distribute_tensor(torch.ones(2 * world), mesh, [Shard(0)]))
        pairs = {
            "with a number": (rows * 1.7, x * 1.7),
            "with a tensor of one": (rows * number, x * number),
            "a tensor of one with it": (number * rows, x * number),
            "rows and columns": (rows + columns, x + x),
            "in place": (rows.clone().mul_(rows).div_(3), x * x / 3),
            "sum": (rows.sum(0), functions.all_reduce(sums, "sum")),
            "norm": (rows.norm(), functions.all_reduce(squares, "sum") ** 0.5),
            "moved": (rows.redistribute(mesh, [Shard(1)]), x),
            "integers": ((rows > 0).sum(), (x > 0).sum()),
            "layer_norm": (F.layer_norm(rows, (600,)), F.layer_norm(x, (600,))),
            "a derivative": (leaf.grad, masked.grad),
        }
        for name, (actual, expected) in pairs.items():
            whole = _whole(actual)
            if whole.shape != expected.shape or not torch.equal(whole, expected):
                found.append(name)
    return found


def checkpointed(folder: str, begins: bool) -> dict[str, str]:
    """Train by FSDP2 and save, or load what another number of ranks has saved: digests of parameters and state."""
    with setting(Setting()):
        model = _sharded(Sharding())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        if begins:
            for batch in _tokens(2, dist.get_world_size()):
                optimizer.zero_grad()
                _loss(model, batch[dist.get_rank()]).backward()
                optimizer.step()
        parameters, state = get_state_dict(model, optimizer)
        if begins:
            dcp.save({"model": parameters, "optimizer": state}, checkpoint_id=folder)
        else:
            dcp.load({"model": parameters, "optimizer": state}, checkpoint_id=folder)
            set_state_dict(model, optimizer, model_state_dict=parameters, optim_state_dict=state)
        moments = [_whole(optimizer.state[p]["exp_avg_sq"]) for p in model.parameters()]
        return {"parameters": digest(model), "moments": repdl.digest({str(i): m for i, m in enumerate(moments)})}
