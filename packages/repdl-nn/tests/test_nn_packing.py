"""repdl.nn.utils.rnn, and packed sequences of torch's sort in recurrent layers."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import rnn as torchs

import repdl
from repdl import nn
from repdl.nn.packing import stable_positions
from repdl.nn.utils import rnn
from repdl.testing.compare import assert_same_bits

LENGTHS = [2, 5, 2, 1, 5, 2, 5]


def _padded(*trailing: int) -> torch.Tensor:
    x = torch.randn(5, len(LENGTHS), *trailing, generator=torch.Generator().manual_seed(0))
    for b, length in enumerate(LENGTHS):
        x[length:, b] = 0
    return x


def test_pack__as_torch_with_a_stable_sort():
    for trailing in ((3,), (2, 2), ()):
        for first in (False, True):
            x = _padded(*trailing)
            x = x.transpose(0, 1) if first else x
            ours = rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), first, enforce_sorted=False)
            assert ours.sorted_indices.tolist() == [1, 4, 6, 0, 2, 5, 3]
            sizes = torchs.pack_padded_sequence(x, LENGTHS, first, enforce_sorted=False).batch_sizes
            assert torch.equal(ours.batch_sizes, sizes)
            for pad in (rnn.pad_packed_sequence, torchs.pad_packed_sequence):
                back, lengths = pad(ours, batch_first=first)
                assert torch.equal(back, x) and lengths.tolist() == LENGTHS
            longer, _ = rnn.pad_packed_sequence(ours, first, padding_value=7.0, total_length=6)
            assert torch.equal(longer, torchs.pad_packed_sequence(ours, first, padding_value=7.0, total_length=6)[0])
    order = [1, 4, 6, 0, 2, 5, 3]
    x, lengths = _padded(3)[:, order], [LENGTHS[b] for b in order]
    assert all(map(torch.equal, rnn.pack_padded_sequence(x, lengths)[:2], torchs.pack_padded_sequence(x, lengths)[:2]))
    tokens = torch.arange(10).reshape(2, 5).T
    assert rnn.pack_padded_sequence(tokens, [5, 2]).data.tolist() == [0, 5, 1, 6, 2, 3, 4]


def test_pack_sequence__and_back():
    sequences = [torch.randn(n, 3, generator=torch.Generator().manual_seed(i)) for i, n in enumerate(LENGTHS)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    for unpacked in (rnn.unpack_sequence(packed), torchs.unpack_sequence(packed)):
        assert all(map(torch.equal, unpacked, sequences))
    padded = rnn.pad_sequence(sequences)
    before = padded.shape
    assert all(map(torch.equal, rnn.unpad_sequence(padded, torch.tensor(LENGTHS)), sequences))
    assert padded.shape == before  # which torch's transposes in place


def test_pack__gradients_move_and_are_audited():
    def run(x: torch.Tensor) -> torch.Tensor:
        packed = rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        return rnn.pad_packed_sequence(packed, batch_first=True)[0]

    x = _padded(3).requires_grad_()
    output = run(x)
    grad = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    output.backward(grad)
    inside = torch.arange(5).unsqueeze(1) < torch.tensor(LENGTHS)
    assert torch.equal(x.grad, torch.where(inside.unsqueeze(-1), grad.transpose(0, 1), 0.0))
    assert repdl.audit(run, x).ok


def test_pack__errors():
    x = _padded(3)
    for call, error, message in (
        (lambda: rnn.pack_padded_sequence(x, LENGTHS), RuntimeError, "enforce_sorted=False sorts"),
        (lambda: rnn.pack_padded_sequence(x, LENGTHS[1:]), RuntimeError, r"expected \(7,\)"),
        (lambda: rnn.pack_padded_sequence(x, [0] * 7), RuntimeError, "expected 1 to 5"),
        (lambda: rnn.pack_padded_sequence(x, [6] * 7), IndexError, "expected 1 to 5"),
        (lambda: rnn.pack_padded_sequence(x[0, 0], [1]), ValueError, "expected 2 or more"),
        (lambda: rnn.pack_padded_sequence(None, [1]), TypeError, "expected a tensor"),
        (lambda: rnn.pad_packed_sequence(x), TypeError, "expected a PackedSequence"),
        (
            lambda: rnn.pad_packed_sequence(rnn.pack_sequence([x[:, 0]]), total_length=1),
            ValueError,
            "expected 5 or more",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


def test_stable_positions__equal_lengths_only():
    assert stable_positions([3, 3, 1], [0, 1, 2]) is None
    assert stable_positions([3, 3, 1], [2, 1, 0]) == [0, 2, 1]  # the longest stays first
    assert stable_positions([4, 2], [3, 1, 2, 0]) == [1, 0, 3, 2]


def _other_order(x: torch.Tensor) -> torchs.PackedSequence:
    """The sequences as an unstable sort may pack them: those of equal length reversed."""
    order = [6, 4, 1, 5, 2, 0, 3]
    packed = torchs.pack_padded_sequence(x[:, order], [LENGTHS[b] for b in order])
    return torchs.PackedSequence(packed.data, packed.batch_sizes, torch.tensor(order))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent__bits_do_not_depend_on_the_order_of_equal_lengths(kind):
    """Outputs, last states and gradients of weights and inputs, with dropout between layers, and given states."""
    results = []
    for pack in (lambda x: rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False), _other_order):
        layer = getattr(nn, kind)(3, 16, 2, bidirectional=True, dropout=0.5, generator=repdl.random.Generator(1))
        layer.generator = repdl.random.Generator(2)
        x = _padded(3).requires_grad_()
        hidden = torch.randn(4, 7, 16, generator=torch.Generator().manual_seed(3)).requires_grad_()
        packed = pack(x)
        output, last = layer(packed, (hidden, hidden * 0.5) if kind == "LSTM" else hidden)
        assert output.sorted_indices is packed.sorted_indices
        padded, _ = rnn.pad_packed_sequence(output)
        last = last if isinstance(last, tuple) else (last,)
        total = padded.square().sum() + sum(s.square().sum() for s in last)
        gradients = torch.autograd.grad(total, [x, hidden, *layer.parameters()])
        results.append((padded, *last, *gradients))
    for a, b in zip(*results):
        assert_same_bits(a.detach(), b.detach())
