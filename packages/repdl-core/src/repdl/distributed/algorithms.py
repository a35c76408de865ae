"""Ways of an all_reduce of a flat tensor: which data travels, and who computes what. All give the same bits.

- gathered: every rank gets all tensors and reduces them. One message, for small tensors.
- sharded: rank r gets part r of all tensors, reduces it, and sends it to all. As many bytes as a ring sends.
- halved: pairs of ranks exchange halves of what they have, neighbours first: for a power of two of ranks these pairs
  are the contract's tree. As many bytes, in half of the memory.
- shared: rank r reduces part r of all tensors where they lie in memory that the ranks of one machine share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import zip_longest

import torch

from repdl import registry
from repdl.callcache import cache_in_place, record_write
from repdl.distributed.transport import Transport
from repdl.ops.reduction.all_reduce import finish, join_ranks

SMALL = 1 << 15
"""Bytes of the tensors of all ranks up to which they are gathered."""
PIECE = 1 << 16
"""Elements that are computed at once, so that they are in the cache when they are written back."""
SENT = 1 << 19
"""Elements that a rank sends to another at once: memory for more would be new to the process each time."""

Algorithm = Callable[[Transport, torch.Tensor, str], None]


def all_reduce(transport: Transport, flat: torch.Tensor, op: str) -> None:
    """`flat`, contiguous and of one dimension, becomes the reduction of those of all ranks."""
    if flat.numel():
        choose(transport, flat)(transport, flat, op)


def choose(transport: Transport, flat: torch.Tensor) -> Algorithm:
    """The algorithm for a tensor: every rank of the group chooses the same one."""
    if transport.size == 1 or flat.nbytes * transport.size <= SMALL:
        return gathered
    if transport.memory is not None:
        return shared
    return halved if can_halve(transport, flat) else sharded


def ways(transport: Transport, flat: torch.Tensor) -> list[Algorithm]:
    """All algorithms that take a tensor."""
    others = [*([halved] if can_halve(transport, flat) else []), *([shared] if transport.memory is not None else [])]
    return [gathered, sharded, *others]


def can_halve(transport: Transport, flat: torch.Tensor) -> bool:
    """Whether `halved` takes a tensor: partial results travel, which a 16-bit dtype does not hold."""
    is_power_of_two = transport.size & (transport.size - 1) == 0
    return transport.has_pairs and is_power_of_two and flat.dtype in (torch.float32, torch.float64)


def gathered(transport: Transport, flat: torch.Tensor, op: str) -> None:
    ranks = flat.unsqueeze(0)
    if transport.size > 1:
        ranks = flat.new_empty(transport.size, flat.numel())
        transport.all_gather(ranks.view(-1), flat)
    reduce_ranks(ranks, op, flat)


def sharded(transport: Transport, flat: torch.Tensor, op: str) -> None:
    for block in flat.split(transport.size * SENT):
        part = block.numel() // transport.size
        whole, rest = block.split([part * transport.size, block.numel() - part * transport.size])
        if part:
            mine = flat.new_empty(part)
            _scatter_sent(transport, mine, whole, op)
            transport.all_gather(whole, mine)
        if rest.numel():
            _reduce_rest(transport, rest, op)


def _reduce_rest(transport: Transport, rest: torch.Tensor, op: str) -> None:
    """Fewer elements than ranks: gathered, or with padding an element for each rank, as many ranks would gather more
    than the tensor."""
    if rest.nbytes * transport.size <= SMALL:
        gathered(transport, rest, op)
        return
    padded = rest.new_zeros(transport.size)
    padded[: rest.numel()] = rest
    sharded(transport, padded, op)
    rest.copy_(padded[: rest.numel()])


def reduce_scatter(transport: Transport, output: torch.Tensor, input: torch.Tensor, op: str) -> None:
    """`output`, `(n,)`, becomes part r of the reduction of `input`, `(size * n,)`, on rank r."""
    if not output.numel():
        return
    is_small = input.nbytes * transport.size <= SMALL
    (_scatter_sent if transport.memory is None or is_small else _scatter_shared)(transport, output, input, op)


def _scatter_sent(transport: Transport, output: torch.Tensor, input: torch.Tensor, op: str) -> None:
    ranks = input.new_empty(transport.size, output.numel())
    transport.all_to_all(ranks.view(-1), input)
    reduce_ranks(ranks, op, output)


def shared(transport: Transport, flat: torch.Tensor, op: str) -> None:
    assert transport.memory is not None
    slots, result = transport.memory.slots(flat.dtype), transport.memory.result(flat.dtype)
    call = f"all_reduce ({op}) of {flat.numel()} elements of {flat.dtype}"
    for block in flat.split(result.numel()):
        count = block.numel()
        begin, end = (count * rank // transport.size for rank in (transport.rank, transport.rank + 1))
        _meet(transport, f"brings {call}", partial(slots[transport.rank, :count].copy_, block))
        _meet(transport, f"computes {call}", partial(reduce_ranks, slots[:, begin:end], op, result[begin:end]))
        block.copy_(result[:count])


def _scatter_shared(transport: Transport, output: torch.Tensor, input: torch.Tensor, op: str) -> None:
    assert transport.memory is not None
    slots, parts = transport.memory.slots(input.dtype), input.view(transport.size, -1)
    call = f"reduce_scatter ({op}) of {input.numel()} elements of {input.dtype}"
    for piece in _pieces(output.numel(), slots.shape[1] // transport.size):
        count = piece.stop - piece.start
        block = slots[:, : transport.size * count].view(transport.size, transport.size, count)
        _meet(transport, f"brings {call}", partial(block[transport.rank].copy_, parts[:, piece]))
        _meet(transport, f"computes {call}", partial(reduce_ranks, block[:, transport.rank], op, output[piece]))


def _meet(transport: Transport, part: str, work: Callable[[], object]) -> None:
    """Do a part of a reduction, and return when all ranks have done it; raises where one has failed or does another
    one. A rank that fails comes to the barrier too: the others would wait for it, or take its next part for this."""
    assert transport.memory is not None
    error: BaseException | None = None
    try:
        work()
    except BaseException as caught:
        error = caught
    transport.memory.note(transport.rank, part if error is None else f"failed when it {part}")
    transport.barrier()
    if error is not None:
        raise error
    transport.memory.compare(transport.rank)


def halved(transport: Transport, flat: torch.Tensor, op: str) -> None:
    kept = flat
    way: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    distance = 1
    while distance < transport.size:
        peer = transport.rank ^ distance
        first, second = kept.tensor_split(2)
        kept, sent = (first, second) if transport.rank < peer else (second, first)
        _join_with(transport, peer, sent, kept, op)
        way.append((peer, kept, sent))
        distance *= 2
    for piece in _pieces(kept.numel(), PIECE):
        total = kept[piece]
        total.copy_(finish(total, op, transport.size))
    for peer, kept, sent in reversed(way):
        transport.exchange(kept, sent, peer)()


def _join_with(transport: Transport, peer: int, sent: torch.Tensor, kept: torch.Tensor, op: str) -> None:
    """`kept` becomes the node over it and what `peer` sends of the same elements, which comes in parts: while one is
    joined, the next is on its way."""
    buffers = [kept.new_empty(min(SENT, kept.numel())) for _ in range(2)]
    parts = zip_longest(_pieces(sent.numel(), SENT), _pieces(kept.numel(), SENT), fillvalue=slice(0, 0))
    coming: deque[tuple[Callable[[], None], torch.Tensor, torch.Tensor]] = deque()

    def join_first() -> None:
        wait, mine, other = coming.popleft()
        wait()
        join_into(mine, other, op, kept_is_left=transport.rank < peer)

    for i, (there, here) in enumerate(parts):
        mine = kept[here]
        other = buffers[i % 2][: mine.numel()]
        coming.append((transport.exchange(sent[there], other, peer), mine, other))
        if len(coming) > 1:
            join_first()
    while coming:
        join_first()


def join_into(kept: torch.Tensor, other: torch.Tensor, op: str, kept_is_left: bool) -> None:
    """`kept` becomes the node of the tree over both."""
    _joining(op, kept_is_left)(kept, other)


@cache
def _joining(op: str, kept_is_left: bool) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What writes the node over two tensors into the first one, in one pass once it was recorded."""

    def join(kept: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return join_ranks([kept, other] if kept_is_left else [other, kept], op)

    def write(kept: torch.Tensor, joined: torch.Tensor) -> torch.Tensor:
        record_write(kept, joined)
        return kept.copy_(joined)

    def call(kept: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return write(kept, join(kept, other))

    return cache_in_place(call, join, write)


def reduce_ranks(ranks: torch.Tensor, op: str, output: torch.Tensor) -> None:
    """`output`, `(n,)`, becomes the contract's reduction of `ranks`, `(size, n)`."""
    for piece in _pieces(output.numel(), PIECE):
        output[piece].copy_(registry.functions.all_reduce(ranks[:, piece], op))


def _pieces(count: int, most: int) -> Iterator[slice]:
    for begin in range(0, count, most):
        yield slice(begin, min(begin + most, count))


__all__ = [
    "all_reduce",
    "can_halve",
    "choose",
    "gathered",
    "halved",
    "join_into",
    "reduce_ranks",
    "reduce_scatter",
    "sharded",
    "shared",
    "ways",
]
