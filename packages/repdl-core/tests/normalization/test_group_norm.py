"""What is particular to group_norm and instance_norm: gradients, special cases, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

F = torch.nn.functional


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 3),
    channels=st.integers(1, 3),
    rest=st.lists(st.integers(1, 3), max_size=2),
    weighted=st.booleans(),
    biased=st.booleans(),
    instance=st.booleans(),
)
def test_group_norm__agrees_with_torch(
    batch: int, groups: int, channels: int, rest: list[int], weighted: bool, biased: bool, instance: bool
) -> None:
    c = groups * channels
    x = uniform(1, batch, c, *rest)
    spatial = x[0, 0].numel()
    instance = instance and spatial > 1
    groups = c if instance else groups
    n = x[0].numel() // groups
    if n * batch == 1:
        return
    tensors = [x, *([uniform(2, c)] if weighted else []), *([uniform(3, c)] if biased else [])]

    def run(module: Any, *t: torch.Tensor) -> torch.Tensor:
        w, b = t[1] if weighted else None, t[-1] if biased else None
        if module is F and biased and not weighted:
            w = torch.ones(c).double()  # torch has no backward with a bias only
        return (
            module.instance_norm(t[0], None, None, w, b, eps=0.01)
            if instance
            else module.group_norm(t[0], groups, w, b, 0.01)
        )

    grad = uniform(6, *x.shape)
    results = derivatives(lambda *t: run(ops, *t), tensors, grad)
    expected = derivatives(lambda *t: run(F, *t), [t.double() for t in tensors], grad.double())
    var = x.double().reshape(batch, groups, n).var(2, unbiased=False)
    # As in layer_norm's test; a gradient of weight or bias adds up batch * spatial elements.
    a = 1 / (var + 0.01).sqrt().min().item()
    error, added = (3 * n + 12) * U * (1 + a) ** 2 * 2, batch * spatial
    for i, (r, e) in enumerate(zip(results, expected)):
        assert_within(r, e, error if i == 0 else (error + added * U) * (1 + a) ** 2 * n * added, f"{i}")


def test_group_norm__layout_does_not_change_the_bits() -> None:
    x = uniform(1, 4, 6, 5, 2)
    weight, bias = uniform(2, 12)[::2], uniform(3, 1).expand(6)
    for layout in (
        x.transpose(2, 3),
        x[::2],
        x[:1].expand(4, 6, 5, 2),
        torch._neg_view(x),
        x.to(memory_format=torch.channels_last),
    ):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(
            ops.group_norm(layout, 3, weight, bias),
            ops.group_norm(dense, 3, weight.contiguous(), bias.contiguous()),
        )


def test_group_norm__one_group_without_weight_is_layer_norm() -> None:
    x = uniform(1, 3, 4, 50)
    assert_same_bits(ops.group_norm(x, 1), ops.layer_norm(x, [4, 50]))


def test_instance_norm__is_group_norm_with_a_group_a_channel() -> None:
    x, weight, bias = uniform(1, 3, 4, 50), uniform(2, 4), uniform(3, 4)
    assert_same_bits(ops.instance_norm(x, None, None, weight, bias), ops.group_norm(x, 4, weight, bias))
    assert ops.instance_norm(uniform(1, 3, 0, 5)).shape == (3, 0, 5)


def test_instance_norm__running_statistics_are_batch_norms() -> None:
    x, mean, var = uniform(1, 3, 4, 5), uniform(2, 4), uniform(3, 4).abs()
    assert_same_bits(
        ops.instance_norm(x, mean, var, use_input_stats=False), ops.batch_norm(x, mean, var, training=False)
    )


def test_instance_norm__tracks_the_means_of_each_elements_statistics() -> None:
    x, weight = uniform(1, 3, 4, 5, 2), uniform(4, 4)
    for dtype in (torch.float32, torch.float64):
        for momentum in (0.1, 1.0):
            kept = [uniform(2, 4).to(dtype), uniform(3, 4).abs().to(dtype)]
            parts = [[t.clone() for t in kept] for _ in x]
            ours, theirs = ([t.clone() for t in kept] for _ in "ot")
            args = weight.to(dtype), None, True, momentum
            output = ops.instance_norm(x.to(dtype), *ours, *args)
            assert_same_bits(output, ops.instance_norm(x.to(dtype), None, None, *args))
            for element, part in zip(x, parts):
                ops.batch_norm(element[None].to(dtype), *part, training=True, momentum=momentum)
            F.instance_norm(x.to(dtype), *theirs, *args)
            for i in (0, 1):
                assert_same_bits(ours[i], ops.mean(torch.stack([part[i] for part in parts]), 0))
                # Values to 1; 10 in a sum, 3 in a mean, and 8 roundings more in each of two orders.
                bound = 2 * (10 + 3 + 8) * torch.finfo(dtype).eps / 2
                assert ((ours[i] - theirs[i]).abs() <= bound).all()


def test_instance_norm__rejects_statistics_before_it_changes_them() -> None:
    x, mean, var = uniform(1, 3, 4, 5), uniform(2, 4), uniform(3, 4).abs()
    for bad, kind, words in (
        ((mean, None), ValueError, "only one"),
        ((mean, var[:3]), ValueError, "running_var.shape[0] is 3"),
        ((mean, var[:1].expand(4)), UnsupportedError, "share memory"),
    ):
        assert_rejected(
            lambda: ops.instance_norm(x, *bad),
            kind,
            "instance_norm: ",
            words,
            tensors=[x, *(t for t in bad if t is not None)],
        )
    with pytest.raises(ValueError, match="running_mean"):
        ops.instance_norm(x, use_input_stats=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_group_norm__gradients_of_channels_without_elements_are_0(dtype: torch.dtype) -> None:
    x, weight, bias = torch.zeros(3, 4, 0, dtype=dtype), *(torch.ones(4, dtype=dtype, requires_grad=True) for _ in "wb")
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN
    try:
        ops.group_norm(x, 2, weight, bias).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    for vector in (weight, bias):
        assert_same_bits(vector.grad, torch.zeros(4, dtype=dtype), "gradient")


def test_group_norm__forbidden_rewrite_mean_of_squares() -> None:
    # E[x**2] - E[x]**2 cancels: around 4096, the variance of +-1 is 1, and all squares round.
    x = (torch.tensor([4095.0, 4097.0] * 8) + 2.0**-11).reshape(1, 2, 8)
    expected = torch.tensor([-1.0, 1.0] * 8).double().reshape(1, 2, 8)
    assert_within(ops.group_norm(x, 1, eps=0.0), expected, 4 * U)


def test_group_norm__forbidden_rewrite_folded_scale_and_shift() -> None:
    # (x - mean) * rstd, not x * rstd + (-mean * rstd): with x = mean the result is exactly the bias.
    bias = uniform(1, 4)
    out = ops.group_norm(torch.full((2, 4, 16), 0.1), 2, uniform(2, 4), bias)
    assert_same_bits(out, bias[None, :, None].expand(2, 4, 16))


BAD: list[tuple[Any, int, list[Any], str]] = [
    ((5, 6, 2), 4, [None, None], "num_groups is 4"),
    ((5, 6, 2), 0, [None, None], "num_groups is 0"),
    ((5, 6, 2), -2, [None, None], "num_groups is -2"),
    ((5, 6, 2), 3, [(5,), None], "weight.shape[0] is 5"),
    ((5, 6, 2), 3, [(6,), (1,)], "bias.shape[0] is 1"),
    ((6,), 3, [None, None], "input.dim() is 1"),
    ((1, 6), 6, [None, None], "one value a group"),
    ((1, 6, 1, 1), 6, [None, None], "one value a group"),
]


@pytest.mark.parametrize(("shape", "groups", "vectors", "words"), BAD)
def test_group_norm__rejects(shape: tuple[int, ...], groups: int, vectors: list[Any], words: str) -> None:
    t = [None if v is None else uniform(2, *v) for v in vectors]
    x = uniform(1, *shape)
    assert_rejected(
        lambda: ops.group_norm(x, groups, *t),
        ValueError,
        "group_norm: ",
        words,
        tensors=[x],
        by_torch=lambda: F.group_norm(x, groups, *t),
    )


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1), (3, 4, 1, 1), (3,), ()])
def test_instance_norm__rejects(shape: tuple[int, ...]) -> None:
    x = uniform(1, *shape)
    assert_rejected(
        lambda: ops.instance_norm(x),
        ValueError,
        "instance_norm: input",
        tensors=[x],
        by_torch=lambda: F.instance_norm(x),
    )


@pytest.mark.parametrize("options", [{"num_groups": 2.0}, {"eps": "a"}, {"weight": 1}, {"bias": 1}])
def test_group_norm__rejects_types(options: dict[str, Any]) -> None:
    (name,) = options
    args = {"num_groups": 2, **options}
    assert_rejected(lambda: ops.group_norm(uniform(1, 5, 4), **args), TypeError, f"group_norm: {name}")
    assert_rejected(lambda: ops.group_norm(None, 2), TypeError, "group_norm: input")


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_group_norm__rejects_dtypes_and_devices(which: int, dtype: torch.dtype) -> None:
    good = [uniform(1, 5, 4, 2), torch.ones(4), torch.zeros(4)]
    for change, kind in ((dtype, TypeError), ("meta", ValueError)):
        x, weight, bias = (t.to(change) if i == which else t for i, t in enumerate(good))
        assert_rejected(
            lambda: ops.group_norm(x, 2, weight, bias), kind, "group_norm", str(change).removeprefix("torch.")
        )
