"""Where the tensors of a call are among those of a recording (`repdl.callcache.spans`)."""

from __future__ import annotations

import torch

from repdl.callcache.spans import is_reshaped


def test_spans__reshaped_is_all_of_a_tensor_in_another_shape() -> None:
    """Nothing that differs from what `reshape` makes without a copy in one more respect."""
    plain, leaf = torch.randn(3, 4), torch.randn(3, 4).requires_grad_()
    node = leaf * 2
    for source in (plain, leaf, node):
        assert all(is_reshaped(t, source) for t in (source.reshape(12), source.view(2, 6), source.reshape(3, 4)))
    others = {
        "itself": (plain, plain),
        "no tensor": (None, plain),
        "dtype": (plain.view(torch.int32), plain),
        "fewer elements": (plain[:2].view(8), plain),
        "more elements": (plain.view(12), plain[:2]),
        "another place": (plain.view(12)[1:9], plain.view(12)[:8]),
        "other memory": (plain.clone().view(12), plain),
        "other strides": (plain.t(), plain),
        "other strides of the source": (plain.view(12), plain.t()),
        "strides of both": (plain.t()[:], plain.t()),
        "without the gradient": (leaf.detach().view(12), leaf),
        "a gradient of its own": (leaf.detach().view(12).requires_grad_(), leaf),
        "two nodes": (leaf.view(12).view(2, 6), leaf),
        "another node": (leaf.unsqueeze(0), leaf),
        "the node before": (node.view(12), leaf),
        "the node of another one": ((leaf * 3).view(12), node),
    }
    for what, (tensor, source) in others.items():
        assert not is_reshaped(tensor, source), what
    assert not is_reshaped(torch.empty(0).view(0, 3), torch.empty(0)), "other memory of no elements"
