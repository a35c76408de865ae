"""Programs that torch.compile and collectives meet in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import repdl
from repdl.errors import UnsupportedError


def _all_reduce(x: torch.Tensor) -> torch.Tensor:
    return functional.all_reduce(x * 3.3, "sum", dist.group.WORLD) * 1.7


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 3.3
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    return y * 1.7


def _reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    return functional.reduce_scatter_tensor(x * 3.3, "avg", 0, dist.group.WORLD) * 1.7


def _all_gather(x: torch.Tensor) -> torch.Tensor:
    return functional.all_gather_tensor(x * 3.3, 0, dist.group.WORLD) * 1.7


def _with_gradient(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    summed = functional.reduce_scatter_tensor_autograd(leaf.exp(), "sum", 0, dist.group.WORLD)
    (grad,) = torch.autograd.grad((summed * summed).sum(), leaf)
    return grad


FUNCTIONS = _all_reduce, _in_place, _reduce_scatter, _all_gather


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="repdl", fullgraph=True)


def functions() -> dict[str, tuple[str, str]]:
    """The digests of each function, as it is and compiled whole."""
    torch.manual_seed(dist.get_rank())
    x = torch.randn(4 * dist.get_world_size(), 7)
    with repdl.enabled():
        pairs = {f.__name__: (repdl.digest(f(x)), repdl.digest(_compiled(f)(x))) for f in FUNCTIONS}
        pairs["gradient"] = (
            repdl.digest(_with_gradient(x)),
            repdl.digest(torch.compile(_with_gradient, backend="repdl")(x)),
        )
    return pairs


def not_enabled() -> str:
    """What compiled code says of a reduction that torch would order itself."""
    try:
        _compiled(_all_reduce)(torch.ones(4))
    except UnsupportedError as error:
        return str(error)
    return "nothing"


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Linear(12, 480), nn.GELU(), nn.LayerNorm(480)
    return nn.Sequential(*first, nn.Linear(480, 600), nn.GELU(), nn.Linear(600, 480), nn.GELU(), nn.Linear(480, 5))


def _train(wrap: Callable[[nn.Module], Callable[..., torch.Tensor]]) -> str:
    model = _net()
    called = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(2):
        optimizer.zero_grad()
        called(torch.randn(8, 12)).square().mean().backward()
        optimizer.step()
    whole = {name: getattr(p, "full_tensor", lambda p=p: p)() for name, p in model.named_parameters()}
    return repdl.digest(whole)


def _data_parallel(model: nn.Module) -> Callable[..., torch.Tensor]:
    return DistributedDataParallel(model, bucket_cap_mb=1)


def _sharded(model: Any) -> Callable[..., torch.Tensor]:
    fully_shard(model[3])
    return fully_shard(model)


def _tensor_parallel(model: nn.Module) -> Callable[..., torch.Tensor]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return parallelize_module(model, mesh, {"3": ColwiseParallel(), "5": RowwiseParallel()})


WAYS = {
    "DistributedDataParallel": _data_parallel,
    "fully_shard": _sharded,
    "parallelize_module": _tensor_parallel,
}


def models() -> dict[str, tuple[str, str]]:
    """The digests of each way to train, as it is and compiled."""
    warnings.simplefilter("ignore")
    found = {}
    with repdl.enabled():
        for name, way in WAYS.items():
            torch._dynamo.reset()
            plain = _train(way)
            found[name] = (plain, _train(lambda model, way=way: torch.compile(way(model), backend="repdl")))
        torch._dynamo.reset()
        inside = _train(lambda model: _data_parallel(torch.compile(model, backend="repdl")))  # type: ignore[arg-type]
        found["a compiled model inside"] = (found["DistributedDataParallel"][0], inside)
    return found
