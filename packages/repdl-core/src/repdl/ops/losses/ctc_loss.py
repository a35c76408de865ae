"""ctc_loss: connectionist temporal classification, a formula over ctc_states, its recurrence along time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import ArgumentError, check, check_dim, check_dtype, check_range, check_size
from repdl.ops.common import check_index, floating, to_device
from repdl.ops.declare import public
from repdl.ops.losses._element_loss import scalar
from repdl.ops.losses._loss import check_reduction
from repdl.ops.reduction.logsumexp import logsumexp as logsumexp  # which registers the op
from repdl.registry import OPS, as_int, as_ints, composite, functions as _ops
from repdl.tensors.values import assert_on_device, has_values, is_readable

__all__ = ["ctc_loss"]

_LOWEST, _IMPOSSIBLE = -1e30, 1e29
"""The logarithm of no probability, finite so that derivatives are; a loss beyond the second has none."""


def _check_states(op: str, skips: Tensor, input_lengths: Tensor, **tensors: Tensor) -> None:
    check_dim(op, 3, **tensors)
    (shape, *others) = [tuple(t.shape) for t in tensors.values()]
    for name, other in zip(list(tensors)[1:], others):
        check_size(op, f"{name}.shape", other, shape, f"{next(iter(tensors))}.shape")
    check_size(op, "skips.shape", tuple(skips.shape), shape[1:], "a batch of states")
    check_size(op, "input_lengths.shape", tuple(input_lengths.shape), shape[1:2], "the batch")


def _first(skips: Tensor, like: Tensor) -> Tensor:
    """The states before the first step, `(N, S)`."""
    state = torch.arange(skips.shape[1], device=skips.device)
    return torch.where(state == 0, scalar(0.0, like), scalar(_LOWEST, like)).expand(skips.shape)


def _followed(alpha: Tensor, skips: Tensor, c: str) -> tuple[Tensor, Tensor, Tensor]:
    """`exp(x - m)` of the three states that each follows, `(N, S, 3)`, their sum, and m, the largest, finite."""
    lowest, zero = scalar(_LOWEST, alpha), scalar(0.0, alpha)
    padded = torch.cat([lowest.expand(skips.shape[0], 2), alpha], 1)
    two = _ops.where(skips, padded[:, :-2], lowest, c)
    rows = torch.stack([alpha, padded[:, 1:-1], two], 2)
    largest = _ops.amax(rows.detach())
    finite = _ops.where(largest.isinf(), zero, largest, c)
    exponentials = _ops.exp(_ops.sub(rows, finite.unsqueeze(2), c))
    return exponentials, _ops.sum(exponentials, [2], False, c), finite


def _states(emitted: Tensor, skips: Tensor, input_lengths: Tensor, c: str) -> Tensor:
    alpha, alphas = _first(skips, emitted), []
    for t in range(emitted.shape[0]):
        _, total, largest = _followed(alpha, skips, c)
        following = _ops.add(_ops.add(_ops.log(total), largest, c), emitted[t], c)
        alpha = _ops.where((t < input_lengths).unsqueeze(1), following, alpha, c)
        alphas.append(alpha)
    return torch.stack(alphas) if alphas else emitted.clone()


def _to_emitted(grad: Tensor, alphas: Tensor, skips: Tensor, input_lengths: Tensor, c: str) -> Tensor:
    zero, found = scalar(0.0, grad), []
    after = zero.expand(skips.shape)
    for t in reversed(range(grad.shape[0])):
        exponentials, total, _ = _followed(alphas[t - 1] if t else _first(skips, grad), skips, c)
        g, counts = _ops.add(after, grad[t], c), (t < input_lengths).unsqueeze(1)
        here = _ops.where(counts, g, zero, c)
        own, one, two = _ops.mul(_ops.div(here, total, c).unsqueeze(2), exponentials, c).unbind(2)
        none = zero.expand(skips.shape[0], 2)
        one = torch.cat([one[:, 1:], none[:, :1]], 1)
        two = torch.cat([_ops.where(skips, two, zero, c)[:, 2:], none], 1)[:, : skips.shape[1]]
        from_next = _ops.sum(torch.stack([own, one, two], 2), [2], False, c)
        after = _ops.add(_ops.where(counts, zero, g, c), from_next, c)
        found.append(here)
    return torch.stack(found[::-1]) if found else grad.clone()


_OF_STATES = ("add", "amax", "exp", "sub", "sum", "where")
composite(
    "ctc_states",
    "(Tensor emitted, Tensor skips, Tensor input_lengths, str contract) -> Tensor",
    _states,
    calls=(*_OF_STATES, "log"),
    check=lambda emitted, skips, input_lengths: _check_states("ctc_states", skips, input_lengths, emitted=emitted),
    fake=lambda emitted: emitted.new_empty(emitted.shape),
    gradients={
        "emitted": lambda g, output, skips, input_lengths, contract: _ops.ctc_states_backward(
            g, output, skips, input_lengths, contract
        )
    },
    dtypes=Dtypes(bools=("skips",), integers=("input_lengths",)),
    family="ctc_loss",
)
composite(
    "ctc_states_backward",
    "(Tensor grad, Tensor alphas, Tensor skips, Tensor input_lengths, str contract) -> Tensor",
    _to_emitted,
    calls=(*_OF_STATES, "div", "mul"),
    check=lambda grad, alphas, skips, input_lengths: _check_states(
        "ctc_states_backward", skips, input_lengths, grad=grad, alphas=alphas
    ),
    fake=lambda grad: grad.new_empty(grad.shape),
    dtypes=Dtypes(bools=("skips",), integers=("input_lengths",)),
    family="ctc_loss",
)


def _check(
    op: str,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: str,
) -> None:
    check_dim(op, 3, log_probs=log_probs)
    check_dim(op, 2, targets=targets)
    _, batch, classes = log_probs.shape
    integers = {"targets": targets, "input_lengths": input_lengths, "target_lengths": target_lengths}
    check_dtype(op, (torch.int64,), **integers)
    check_size(op, "targets.shape[0]", targets.shape[0], batch, "the batch, log_probs.shape[1]")
    for name in ("input_lengths", "target_lengths"):
        check_size(op, f"{name}.shape", tuple(integers[name].shape), (batch,), "(log_probs.shape[1],)")
    check_range(op, 0 <= blank < classes, lambda: f"blank is {blank}, expected 0 to {classes - 1}")
    check_reduction(op, reduction)


def _rows(table: Tensor, index: Tensor, c: str) -> Tensor:
    """`(N, L), (N, K, ...) -> (N, K, ...)`: elements of each row."""
    starts = torch.arange(table.shape[0], device=index.device).view(-1, *[1] * (index.dim() - 1)) * table.shape[1]
    return _ops.embedding(table.reshape(-1, 1), index + starts, -1, False, c).squeeze(-1)


def _formula(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: str,
    zero_infinity: bool,
    c: str,
) -> Tensor:
    (steps, batch, classes), most, device = log_probs.shape, targets.shape[1], log_probs.device
    states = 2 * most + 1
    lowest, zero = scalar(_LOWEST, log_probs), scalar(0.0, log_probs)
    # Blanks, and the targets between them; beyond a target's length there are blanks alone.
    within = torch.arange(most, device=device) < target_lengths.unsqueeze(1)
    labels = torch.full((batch, states), blank, dtype=torch.int64, device=device)
    labels[:, 1::2] = torch.where(within, targets, blank)
    skips = torch.zeros((batch, states), dtype=torch.bool, device=device)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    valid = (labels >= 0) & (labels < classes)
    offsets = torch.arange(steps * batch, device=device).view(steps, batch, 1) * classes
    index = torch.where(valid, labels + offsets, -1)
    emitted = _ops.embedding(log_probs.reshape(-1, 1), index, -1, False, c).squeeze(-1)
    emitted = _ops.clamp(emitted, _LOWEST, float("inf"))
    alphas = _ops.ctc_states(emitted, skips, input_lengths, c)
    alpha, none = alphas[-1] if steps else _first(skips, log_probs), lowest.expand(batch, 1)
    last = 2 * target_lengths.unsqueeze(1)
    ends = torch.cat([last, torch.where(last > 0, last - 1, states)], 1)
    losses = _ops.neg(_ops.logsumexp(_rows(torch.cat([alpha, none], 1), ends, c), [1], False, c))
    instead = zero if zero_infinity else scalar(float("inf"), losses)
    losses = _ops.where(losses.detach() > _IMPOSSIBLE, instead, losses, c)
    if reduction == "none":
        return losses
    if reduction == "mean":
        losses = _ops.div(losses, floating(target_lengths.clamp(min=1), losses.dtype), c)
    total = _ops.sum(losses, [0], False, c)
    return _ops.div(total, scalar(batch, total), c) if reduction == "mean" else total


composite(
    "ctc_loss",
    "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, str reduction, "
    "bool zero_infinity, str contract) -> Tensor",
    _formula,
    calls=("embedding", "clamp", "ctc_states", "where", "neg", "div", "sum", *OPS["logsumexp"].calls),
    check=_check,
    dtypes=Dtypes(integers=("targets", "input_lengths", "target_lengths")),
    autocast={"cpu": torch.float32},
)


def _lengths(name: str, given: Any, most: int, like: Tensor) -> Tensor:
    """Lengths as int64 on the device of `like`, each from 0 to `most`."""
    if isinstance(given, (list, tuple)):
        given = torch.tensor(as_ints("ctc_loss", name, given), dtype=torch.int64)
    if not isinstance(given, Tensor):
        raise ArgumentError(f"ctc_loss: {name} is {type(given).__name__}, expected a tensor or integers")
    if given.dtype not in (torch.int64, torch.int32):
        check_dtype("ctc_loss", (torch.int64,), **{name: given})
    lengths = to_device(given, like.device).long()
    assert_on_device(
        "ctc_loss", lengths, lambda n: (n >= 0) & (n <= most), f"a number of {name} is not from 0 to {most}"
    )
    if is_readable(lengths):
        check_index("ctc_loss", lengths, most + 1, name=name, expected=lambda: f"0 to {most}")
    return lengths


def _padded(targets: Tensor, lengths: Tensor | Sequence[int]) -> Tensor:
    """Targets one after the other as rows, as long as the longest; lengths on a device are waited for."""
    counts = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    total = sum(counts)
    check(
        "ctc_loss",
        total == targets.numel(),
        lambda: f"targets.shape is {tuple(targets.shape)}, expected ({total},), the sum of target_lengths",
    )
    rows = targets.split(counts)
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


@public("ctc_loss", uncached="reads lengths")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Connectionist temporal classification: `(T, N, C), (N, S), (N), (N) -> (N)`, reduced; any floating-point dtype.

    The derivative with respect to `log_probs` is that of the loss; torch's is that of logits whose `log_softmax` they
    are, less it: through `log_softmax` both give the same. An infinite loss has none.

    Args:
        log_probs: logarithms of probabilities, (T, N, C), or (T, C) without a batch.
        targets: classes but the blank, int64 or int32: (N, S), or all one after the other.
        input_lengths, target_lengths: of each example, as tensors or sequences of integers.
        reduction: 'mean' divides each loss by the length of its target first.
        zero_infinity: losses of targets that are longer than the input allows are 0, not infinite.

    Raises:
        ShapeError: if shapes or lengths do not fit together, or for another `reduction`.
        OutOfRangeError: if a length is too large, or a target or the blank no class.
    """
    op = "ctc_loss"
    check_reduction(op, reduction)
    check_dim(op, (2, 3), log_probs=log_probs)
    check_dtype(op, (torch.int64, torch.int32), targets=targets)
    blank = as_int(op, "blank", blank)
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.reshape(1, -1) if targets.dim() == 1 else targets
        input_lengths, target_lengths = (
            n.reshape(1) if isinstance(n, Tensor) else n for n in (input_lengths, target_lengths)
        )
    check_dim(op, (1, 2), targets=targets)
    targets = to_device(targets, log_probs.device).long()
    inputs = _lengths("input_lengths", input_lengths, log_probs.shape[0], log_probs)
    most = targets.shape[1] if targets.dim() == 2 else targets.numel()
    lengths = _lengths("target_lengths", target_lengths, most, log_probs)
    check_size(op, "target_lengths.shape", lengths.shape, (log_probs.shape[1],), "(log_probs.shape[1],)")
    if targets.dim() == 1:
        targets = _padded(targets, target_lengths)
    if has_values(targets) and targets.shape[0] == lengths.shape[0]:
        counted = torch.arange(targets.shape[1], device=targets.device) < lengths.unsqueeze(1)
        used, classes = torch.where(counted, targets, 0), log_probs.shape[2]
        assert_on_device(op, used, lambda t: (t >= 0) & (t < classes), f"a target is not from 0 to {classes - 1}")
        if is_readable(targets):
            check_index(op, used, classes, name="targets", expected=lambda: f"0 to {classes - 1}")
    losses = _ops.ctc_loss(log_probs, targets, inputs, lengths, blank, reduction, zero_infinity, contract)
    return losses.reshape(()) if not batched else losses
