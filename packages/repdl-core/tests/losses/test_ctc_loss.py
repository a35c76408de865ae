"""What is particular to ctc_loss: torch's values and derivatives, every form of its arguments, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import U, assert_rejected, assert_within

LENGTHS, TARGETS = torch.tensor([12, 9, 7, 12]), torch.tensor([5, 3, 0, 1])
CLASSES = index(3, 5, 4, 5) + 1


def run(module: Any, logits: torch.Tensor, *rest: Any, **options: Any) -> list[torch.Tensor]:
    """The loss, and its derivative through log_softmax."""
    leaf = logits.detach().clone().requires_grad_()
    loss = module.ctc_loss(module.log_softmax(leaf, -1), *rest, **options)
    (grad,) = torch.autograd.grad(loss, leaf, torch.ones_like(loss))
    return [loss.detach(), grad]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss__values_and_derivatives(reduction: str) -> None:
    logits = uniform(1, 12, 4, 6, scale=3.0)
    concatenated = torch.cat([row[:n] for row, n in zip(CLASSES, TARGETS.tolist())])
    for targets in (CLASSES, CLASSES.int(), concatenated):
        for lengths in ((LENGTHS, TARGETS), (LENGTHS.tolist(), tuple(TARGETS.tolist()))):
            actual, exact = (
                run(m, logits.to(d), targets, *lengths, reduction=reduction)
                for m, d in ((ops, torch.float32), (F, torch.float64))
            )
            for a, e in zip(actual, exact):
                # 12 steps of 8 roundings of numbers up to 80; a derivative is a sum of probabilities of such numbers.
                assert_within(a, e, 12 * 8 * 80 * U * 8)
    assert_within(
        ops.ctc_loss(ops.log_softmax(logits, -1), (CLASSES - 1), LENGTHS, TARGETS, blank=5, reduction=reduction),
        F.ctc_loss(logits.double().log_softmax(-1), CLASSES - 1, LENGTHS, TARGETS, blank=5, reduction=reduction),
        12 * 8 * 80 * U * 4,
    )


def test_ctc_loss__without_a_batch() -> None:
    logits = uniform(1, 12, 6, scale=3.0)
    for reduction in ("none", "mean"):
        a, e = (
            run(m, logits.to(d), CLASSES[0], torch.tensor(12), torch.tensor(5), reduction=reduction)
            for m, d in ((ops, torch.float32), (F, torch.float64))
        )
        for mine, theirs in zip(a, e):
            assert_within(mine, theirs, 12 * 8 * 80 * U * 8)


def test_ctc_loss__impossible_targets() -> None:
    """Repeated targets need a blank between them: infinite, or 0 and without a derivative."""
    logits, targets = uniform(1, 5, 2, 4), torch.tensor([[1, 1, 1, 2], [1, 2, 3, 1]])
    lengths, counts = torch.tensor([5, 5]), torch.tensor([4, 4])
    loss, _ = run(ops, logits, targets, lengths, counts, reduction="none")
    assert loss[0] == float("inf") and loss[1].isfinite()
    loss, grad = run(ops, logits, targets, lengths, counts, reduction="none", zero_infinity=True)
    assert loss[0] == 0 and (grad[:, 0] == 0).all() and (grad[:, 1] != 0).any()


def test_ctc_loss__of_an_example_alone_is_the_same() -> None:
    log_probs = ops.log_softmax(uniform(1, 12, 4, 6), -1)
    together = ops.ctc_loss(log_probs, CLASSES, LENGTHS, TARGETS, reduction="none")
    for i, (t, s) in enumerate(zip(LENGTHS.tolist(), TARGETS.tolist())):
        alone = ops.ctc_loss(log_probs[:t, i], CLASSES[i, :s], [t], [s], reduction="none")
        assert_same_bits(alone, together[i])


def test_ctc_loss__rejects() -> None:
    x = uniform(1, 12, 4, 6)
    for bad, kind, words in (
        ((x, CLASSES, LENGTHS + 1, TARGETS), IndexError, "input_lengths[0] is 13, expected 0 to 12"),
        ((x, CLASSES, LENGTHS, TARGETS + 1), IndexError, "target_lengths[0] is 6, expected 0 to 5"),
        ((x, CLASSES, LENGTHS[:3], TARGETS), ValueError, "input_lengths.shape is (3,), expected (4,)"),
        ((x, CLASSES, LENGTHS, TARGETS, 6), IndexError, "blank is 6, expected 0 to 5"),
        ((x, CLASSES.view(-1), LENGTHS, TARGETS), ValueError, "targets.shape is (20,), expected (9,)"),
        ((x, CLASSES.float(), LENGTHS, TARGETS), TypeError, "targets.dtype is float32, expected int64 or int32"),
    ):
        assert_rejected(lambda: ops.ctc_loss(*bad), kind, words)
    for bad in (CLASSES + 3, -CLASSES):
        assert_rejected(lambda: ops.ctc_loss(x, bad, LENGTHS, TARGETS), IndexError, "targets[", "expected 0 to 5")
    assert_rejected(lambda: ops.ctc_loss(x.int(), CLASSES, LENGTHS, TARGETS), TypeError, "log_probs.dtype is int32")
