"""What ranks call in tests of collectives, and what they have to get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import repdl
from repdl import registry
from repdl.distributed import algorithms, shared_memory
from repdl.distributed.transport import Transport
from repdl.errors import RankError
from repdl.testing import uniform
from repdl.testing.cases.reduction.all_reduce import numbers

OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}
SIZES = 0, 1, 7, 1000, 50_001


def expected(ranks: torch.Tensor, op: str) -> torch.Tensor:
    return registry.functions.all_reduce(ranks, op)


def ranks_of(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The tensors of all ranks."""
    return numbers(count, dist.get_world_size(), count).to(dtype)


def same(actual: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether dtypes, shapes and bits are the same."""
    if actual.dtype is not wanted.dtype or actual.shape != wanted.shape:
        return False
    parts = [torch.view_as_real(t) if t.is_complex() else t for t in (actual, wanted)]
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[parts[0].element_size()]
    return torch.equal(parts[0].contiguous().view(integer), parts[1].contiguous().view(integer))


def differing(enabled: bool) -> list[str]:
    """The names of calls that did not give what they have to."""
    api: Any = dist if enabled else repdl.distributed
    if enabled:
        repdl.enable()
    return [name for name, right in _calls(api) if not right]


def _calls(api: Any) -> Iterator[tuple[str, bool]]:
    for op in OPS:
        for count in SIZES:
            yield f"all_reduce {op} {count}", _all_reduce(api, op, count, torch.float32, False)
            yield f"all_reduce async {op} {count}", _all_reduce(api, op, count, torch.float32, True)
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            yield f"all_reduce {op} {dtype}", _all_reduce(api, op, 40_003, dtype, False)
    for name, call in _CALLS.items():
        yield name, call(api)


def _all_reduce(api: Any, op: str, count: int, dtype: torch.dtype, later: bool) -> bool:
    ranks = ranks_of(count, dtype)
    x = ranks[dist.get_rank()].clone()
    work = api.all_reduce(x, OPS[op], async_op=later)
    if later:
        work.wait()
        assert work.is_completed()
    return same(x, expected(ranks, op))


def _layouts(api: Any) -> bool:
    """A tensor that is not contiguous, on rank 0 with other strides than on the others."""
    ranks = ranks_of(600).view(-1, 20, 30)
    rank = dist.get_rank()
    x = ranks[rank].clone() if rank else ranks[rank].t().contiguous().t()
    api.all_reduce(x)
    return same(x, expected(ranks, "sum"))


def _coalesced(api: Any) -> bool:
    ranks = [ranks_of(count) for count in (3, 20_000, 5)]
    tensors = [r[dist.get_rank()].clone() for r in ranks]
    api.all_reduce_coalesced(tensors)
    return all(same(x, expected(r, "sum")) for x, r in zip(tensors, ranks))


def _complex(api: Any) -> bool:
    ranks = torch.view_as_complex(ranks_of(2000).view(-1, 1000, 2))
    x = ranks[dist.get_rank()].clone()
    api.all_reduce(x)
    return same(torch.view_as_real(x), expected(torch.view_as_real(ranks), "sum"))


def _integers(api: Any) -> bool:
    x = torch.arange(5) + dist.get_rank()
    api.all_reduce(x)
    world = dist.get_world_size()
    later = torch.ones(3, dtype=torch.int32)
    api.all_reduce(later, async_op=True).wait()
    right = torch.arange(5) * world + world * (world - 1) // 2
    return torch.equal(x, right) and later.tolist() == [world] * 3


def _reduce(api: Any) -> bool:
    ranks, root = ranks_of(30_000), dist.get_world_size() - 1
    x = ranks[dist.get_rank()].clone()
    api.reduce(x, root, dist.ReduceOp.AVG)
    return same(x, expected(ranks, "avg") if dist.get_rank() == root else ranks[dist.get_rank()])


def _reduce_scatter(api: Any) -> bool:
    world, rank = dist.get_world_size(), dist.get_rank()
    ranks = ranks_of(world * 5000)
    parts = expected(ranks, "sum").chunk(world)
    whole, listed = torch.empty(5000), torch.empty(5000)
    api.reduce_scatter_tensor(whole, ranks[rank].clone())
    work = api.reduce_scatter(listed, list(ranks[rank].clone().chunk(world)), async_op=True)
    work.wait()
    return same(whole, parts[rank]) and same(listed, parts[rank])


def _futures(api: Any) -> bool:
    ranks = ranks_of(1000)
    x = ranks[dist.get_rank()].clone()
    future = api.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    return same(future.wait(), expected(ranks, "sum") * 2)


def _in_order(api: Any) -> bool:
    """Several that are not waited for, and one that is, with data moving between them."""
    ranks = [ranks_of(count) for count in (70_000, 20, 30_000, 40_000)]
    tensors = [r[dist.get_rank()].clone() for r in ranks]
    works = [api.all_reduce(x, async_op=True) for x in tensors[:2]]
    moved = torch.full((3,), float(dist.get_rank()))
    api.broadcast(moved, dist.get_world_size() - 1)
    api.all_reduce(tensors[2])
    works.append(api.all_reduce(tensors[3], async_op=True))
    for work in reversed(works):
        work.wait(timedelta(seconds=20))
    right = all(same(x, expected(r, "sum")) for x, r in zip(tensors, ranks))
    return right and moved.tolist() == [dist.get_world_size() - 1.0] * 3


def _some_wait(api: Any) -> bool:
    """One rank waits for each reduction, while others go on."""
    ranks = [ranks_of(count) for count in (30_000, 20, 40_000)]
    tensors = [r[dist.get_rank()].clone() for r in ranks]
    works = [api.all_reduce(x, async_op=i % dist.get_world_size() != dist.get_rank()) for i, x in enumerate(tensors)]
    for work in works:
        if work is not None:
            work.wait()
    return all(same(x, expected(r, "sum")) for x, r in zip(tensors, ranks))


def _subgroups(api: Any) -> bool:
    """Groups of ranks in another order than the world's: the order is the group's."""
    world, rank = dist.get_world_size(), dist.get_rank()
    odd = dist.new_group(list(range(1, world, 2)) or [0])
    others = dist.new_group(list(range(0, world, 2)))
    members = dist.get_process_group_ranks(odd if rank % 2 and world > 1 else others)
    ranks = ranks_of(9000)
    x = ranks[rank].clone()
    api.all_reduce(x, group=odd if rank % 2 and world > 1 else others)
    return same(x, expected(ranks[members], "sum"))


def _moves(api: Any) -> bool:
    world, rank = dist.get_world_size(), dist.get_rank()
    ranks = ranks_of(6)
    mine = ranks[rank].clone()
    gathered = [torch.empty(6) for _ in range(world)]
    api.all_gather(gathered, mine)
    right = all(same(x, r) for x, r in zip(gathered, ranks))
    received = torch.empty(6)
    api.scatter(received, list(ranks) if rank == 0 else None, 0)
    right &= same(received, mine)
    at_root = [torch.empty(6) for _ in range(world)] if rank == 0 else None
    api.gather(mine, at_root, 0)
    right &= rank != 0 or all(same(x, r) for x, r in zip(at_root or [], ranks))
    exchanged = torch.empty(world)
    api.all_to_all_single(exchanged, torch.arange(world) + 10.0 * rank)
    right &= exchanged.tolist() == [10.0 * r + rank for r in range(world)]
    objects: list[Any] = [None] * world
    api.all_gather_object(objects, {"rank": rank})
    api.barrier()
    if world > 1 and rank < 2:
        if rank == 0:
            api.send(torch.ones(2), 1)
        else:
            api.recv(received[:2], 0)
            right &= received[:2].tolist() == [1.0, 1.0]
    return right and objects == [{"rank": r} for r in range(world)]


_CALLS: dict[str, Callable[[Any], bool]] = {
    "layouts": _layouts,
    "coalesced": _coalesced,
    "complex": _complex,
    "integers": _integers,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "futures": _futures,
    "in order": _in_order,
    "some wait": _some_wait,
    "subgroups": _subgroups,
    "moves": _moves,
}


def functional(count: int) -> bool:
    """The collectives that torch.compile and DTensor call."""
    from torch.distributed import _functional_collectives as functions

    repdl.enable()
    ranks, group = ranks_of(count), dist.group.WORLD
    mine = ranks[dist.get_rank()].clone()
    summed = functions.all_reduce(mine, "sum", group) + 0.0
    parts = expected(ranks, "avg").chunk(dist.get_world_size())
    scattered = functions.reduce_scatter_tensor(mine, "avg", 0, group) + 0.0
    gathered = functions.all_gather_tensor(mine, 0, group) + 0.0
    right = same(summed, expected(ranks, "sum")) and same(scattered, parts[dist.get_rank()])
    return right and same(gathered, ranks.reshape(-1)) and same(mine, ranks[dist.get_rank()])


def premultiplied() -> bool:
    """Each rank has a factor of its own, and halves are rounded once."""
    from torch.distributed import _make_nccl_premul_sum  # type: ignore[attr-defined]

    right = True
    for dtype in (torch.float32, torch.bfloat16):
        ranks, rank = ranks_of(20_000, dtype), dist.get_rank()
        factors = [0.1 + r for r in range(dist.get_world_size())]
        x = ranks[rank].clone()
        repdl.distributed.all_reduce(x, _make_nccl_premul_sum(factors[rank]))
        wide = torch.stack([row.float() * torch.tensor(f) for row, f in zip(ranks, factors)])
        right &= same(x, expected(wide, "sum").to(dtype))
    return right


def refused() -> dict[str, str]:
    """What is said of reductions that no contract covers."""
    from torch.distributed import _make_nccl_premul_sum  # type: ignore[attr-defined]

    x, sparse = torch.ones(3), torch.eye(3).to_sparse()
    calls: dict[str, Callable[[], Any]] = {
        "sparse": lambda: dist.all_reduce(sparse),
        "float8": lambda: dist.all_reduce(x.to(torch.float8_e5m2)),
        "bits": lambda: dist.all_reduce(x, dist.ReduceOp.BAND),
        "factor": lambda: dist.all_reduce(x, _make_nccl_premul_sum(2.0)),
        "any rank": lambda: dist.recv(x),
        "shapes": lambda: dist.reduce_scatter_tensor(x, torch.ones(7)),
    }
    told = {}
    with repdl.enabled():
        for name, call in calls.items():
            try:
                call()
                told[name] = "nothing"
            except (repdl.RepDLError, ValueError) as error:
                told[name] = str(error)
    return told


def checked() -> int:
    return repdl.distributed.check()


def in_small_pieces() -> list[str]:
    """What differs where tensors are moved and computed in several pieces, of which the last one is a rest."""
    before = algorithms.SENT, algorithms.PIECE
    algorithms.SENT, algorithms.PIECE = 4, 3
    try:
        return [
            f"{n} elements, {name}" for n in range(1, 21) for name, right in by_each_algorithm(n).items() if not right
        ]
    finally:
        algorithms.SENT, algorithms.PIECE = before


def by_each_algorithm(count: int) -> dict[str, bool]:
    """Whether each algorithm gives the contract's bits."""
    transport = transport_of_all()
    ranks, found = ranks_of(count), {}
    x = ranks[dist.get_rank()].clone()
    for algorithm in algorithms.ways(transport, x):
        for op in OPS:
            y = x.clone()
            algorithm(transport, y, op)
            found[f"{algorithm.__name__} {op}"] = same(y, expected(ranks, op))
    return found


@cache
def transport_of_all() -> Transport:
    """Of the default group, with memory that its ranks share."""
    group = dist.distributed_c10d._get_default_group()
    store = c10d.PrefixStore("tests", group.get_group_store())
    memory = shared_memory.share(store, group.rank(), group.size(), timedelta(seconds=20))
    return Transport(group._get_backend(torch.device("cpu")), memory)


def apart(rank: int) -> tuple[bool, bool]:
    """Whether all share memory, one of which can't map it, and whether a reduction has the bits of the contract."""
    if dist.get_rank() == rank:
        shared_memory._map = lambda descriptor, size: None
    ranks = ranks_of(50_003)
    x = ranks[dist.get_rank()].clone()
    repdl.distributed.all_reduce(x)
    return transport_of_all().memory is not None, same(x, expected(ranks, "sum"))


def scattered_in_pieces() -> list[bool]:
    """Whether parts of reductions are right, of tensors that fill the memory twice and a bit, and of small ones."""
    found = []
    for count in (1, 5, 3_001, 2 * (1 << 20) // dist.get_world_size() + 7):
        for dtype in (torch.float32, torch.bfloat16):
            ranks = torch.stack([uniform(r, dist.get_world_size() * count) for r in range(dist.get_world_size())])
            ranks = ranks.to(dtype)
            output = torch.empty(count, dtype=dtype)
            repdl.distributed.reduce_scatter_tensor(output, ranks[dist.get_rank()].clone())
            part = slice(dist.get_rank() * count, (dist.get_rank() + 1) * count)
            found.append(same(output, expected(ranks, "sum")[part]))
    return found


def _told(call: Callable[[], Any]) -> str:
    try:
        call()
        return "nothing"
    except (RankError, MemoryError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"


def _is_right() -> bool:
    x = torch.full((20_000,), 1.0 + dist.get_rank())
    repdl.distributed.all_reduce(x)
    return bool((x == 3).all())


def disagreeing() -> dict[str, tuple[str, bool]]:
    """What each of two ranks is told whose calls differ, and whether their next reduction is right."""
    rank, reduce = dist.get_rank(), repdl.distributed.all_reduce
    numbers = torch.ones(20_000)
    output = torch.ones(10_000)

    def scatter() -> Any:
        return repdl.distributed.reduce_scatter_tensor(output, numbers)

    calls: dict[str, Callable[[], Any]] = {
        "sizes": lambda: reduce(torch.ones(20_000 + 10_000 * rank)),
        "dtypes": lambda: reduce(torch.ones(20_000, dtype=(torch.float32, torch.bfloat16)[rank])),
        "reductions": lambda: reduce(numbers, (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[rank]),
        "functions": lambda: scatter() if rank else reduce(numbers),
    }
    _is_right()  # what it leaves in the memory is not taken for numbers of these calls
    return {name: (_told(call), _is_right()) for name, call in calls.items()}


def failing(error: type[BaseException], later: bool) -> tuple[list[str], bool]:
    """What two ranks are told of reductions, in the first of which rank 1 fails, and whether the next is right."""
    right, failed = algorithms.reduce_ranks, []

    def reduce_ranks(*args: Any) -> None:
        if dist.get_rank() == 1 and not failed:
            failed.append(True)
            raise error("no more memory")
        right(*args)

    algorithms.reduce_ranks = reduce_ranks
    tensors = [torch.full((20_000,), 10.0**i * (1 + dist.get_rank())) for i in range(3)]
    if later:
        works = [repdl.distributed.all_reduce(x, async_op=True) for x in tensors]
        told = [_told(work.wait) for work in works]
    else:
        told = [_told(lambda x=x: repdl.distributed.all_reduce(x)) for x in tensors]
    values = [str(x[0].item()) for x in tensors[1:]] + [str(x[-1].item()) for x in tensors[1:]]
    return told + values, _is_right()
