"""Packed and padded sequences: the functions of `torch.nn.utils.rnn`, with a stable sort.

torch sorts sequences of equal length in an order that it does not fix, which is that of the sums over them in the
gradients of weights. Here they stay in the order in which they are given.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import PackedSequence, invert_permutation, pad_sequence

from repdl import ops
from repdl.errors import ArgumentError, DeviceError, OutOfRangeError, ShapeError, check_bool, check_tensor
from repdl.nn.packing import places, sizes_of

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

Tensor = torch.Tensor


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps that are no padding: `(T, B, ...)`, with `batch_first` `(B, T, ...)`, to rows `(sum of lengths, ...)`.

    Rows are moved only; the gradient of padding is +0.

    Args:
        input: sequences with padding, any dtype.
        lengths: of the sequences, from 1 to T; a tensor is on the CPU.
        batch_first: whether the batch is the first dimension of `input`.
        enforce_sorted: whether the lengths must be in descending order. With False the sequences are sorted, those of
            equal length in the order in which they are given.

    Raises:
        ShapeError, OutOfRangeError: if there is not one length from 1 to T for each sequence, or they are not sorted.
        DeviceError: if `lengths` are not on the CPU.

    Contract: recurrent v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
    """
    op = "pack_padded_sequence"
    check_tensor(op, input=input)
    check_bool(op, batch_first=batch_first, enforce_sorted=enforce_sorted)
    if input.dim() < 2:
        raise ShapeError(f"{op}: input.dim() is {input.dim()}, expected 2 or more (steps and sequences)")
    steps = input.transpose(0, 1) if batch_first else input
    time, batch = steps.shape[:2]
    given = _lengths(op, lengths, batch, time)
    order = None
    if not enforce_sorted:
        of = sorted(range(batch), key=lambda b: -given[b])  # stable
        given, order = [given[b] for b in of], torch.tensor(of, dtype=torch.int64, device=input.device)
    elif given != sorted(given, reverse=True):
        raise ShapeError(
            f"{op}: lengths are {_shown(given)}, expected descending ones; enforce_sorted=False sorts the sequences"
        )
    sizes = sizes_of(given)
    index = places(sizes, batch, order, input.device)
    flat = steps.reshape(time * batch, *steps.shape[2:])
    rows = ops.index_select(flat, 0, index) if flat.is_floating_point() else flat.index_select(0, index)
    return PackedSequence(rows, torch.tensor(sizes, dtype=torch.int64), order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences with padding, `(T, B, ...)` or `(B, T, ...)`, in the order before they were sorted; their lengths.

    Raises:
        ShapeError: if `total_length` is less than the longest sequence.
        ArgumentError: if `sequence` is no packed one.

    Contract: rows are moved only.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_packed_sequence.html
    """
    op = "pad_packed_sequence"
    if not isinstance(sequence, PackedSequence):
        raise ArgumentError(f"{op}: sequence is {type(sequence).__name__}, expected a PackedSequence")
    check_bool(op, batch_first=batch_first)
    rows, batch_sizes, order, back = sequence
    sizes: list[int] = batch_sizes.tolist()
    time, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < time:
            raise ShapeError(f"{op}: total_length is {total_length}, expected {time} or more, the longest sequence")
        time = total_length
    index = places(sizes, batch, order, rows.device)
    full = rows.new_full((time * batch, *rows.shape[1:]), padding_value)
    padded = full.index_copy(0, index, rows).reshape(time, batch, *rows.shape[1:])
    lengths = (batch_sizes.unsqueeze(1) > torch.arange(batch)).sum(0)
    if back is not None:
        lengths = lengths[back.cpu()]
    return padded.transpose(0, 1) if batch_first else padded, lengths


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each `(length, ...)`. `padded_sequences` stays as it is.

    Raises:
        ShapeError: if there is not one length for each sequence.

    Contract: steps are moved only.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.unpad_sequence.html
    """
    sequences = padded_sequences.unbind(0 if batch_first else 1)
    if len(lengths) != len(sequences):
        raise ShapeError(f"unpad_sequence: len(lengths) is {len(lengths)}, expected {len(sequences)} (sequences)")
    return [sequence[:length] for sequence, length in zip(sequences, map(int, lengths))]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences `(length, ...)` packed; `pack_padded_sequence` has the options.

    Raises:
        ShapeError: if they are not sorted, or one is empty.

    Contract: recurrent v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_sequence.html
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(list(sequences)), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch, in the order before they were sorted.

    Contract: steps are moved only.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.unpack_sequence.html
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


def _lengths(op: str, lengths: Tensor | Sequence[int], batch: int, time: int) -> list[int]:
    if isinstance(lengths, Tensor) and lengths.device.type != "cpu":
        raise DeviceError(f"{op}: lengths are on {lengths.device}, expected the CPU; move them with .cpu()")
    values = torch.as_tensor(lengths)
    if values.dim() != 1 or values.shape[0] != batch:
        raise ShapeError(f"{op}: lengths.shape is {tuple(values.shape)}, expected ({batch},) (one for each sequence)")
    listed: list[int] = values.to(torch.int64).tolist()
    if listed and not (min(listed) >= 1 and max(listed) <= time):
        raise OutOfRangeError(f"{op}: lengths are {_shown(listed)}, expected 1 to {time} (the number of steps)")
    if not listed:
        raise ShapeError(f"{op}: there is no sequence, expected at least 1")
    return listed


def _shown(lengths: list[int]) -> str:
    return f"{lengths[:8]}{' and more' if len(lengths) > 8 else ''}"
