"""torch.func over RepDL's ops: the bits of loss.backward(), an example at a time."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.func import functional_call, grad, jacrev, vjp, vmap

import repdl
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform

A, B = uniform(1, 4, 3), uniform(2, 3, 5)


def loss(x: torch.Tensor) -> torch.Tensor:
    return repdl.ops.sum(repdl.ops.tanh(repdl.ops.mm(x, B)))


def by_backward(function: object, x: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf)[0]  # type: ignore[operator]


def test_func__grad() -> None:
    assert_same_bits(grad(loss)(A), by_backward(loss, A))


def test_func__grad_of_grad() -> None:
    x = A.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(x), x, create_graph=True)
    (second,) = torch.autograd.grad(repdl.ops.sum(first), x)
    assert second.abs().max() > 0
    assert_same_bits(grad(lambda x: repdl.ops.sum(grad(loss)(x)))(A), second)


def test_func__grad_of_what_is_broadcast_in_a_derivative() -> None:
    def squares(x: torch.Tensor) -> torch.Tensor:
        rows = repdl.ops.sum(repdl.ops.mul(x, x), 1)
        return repdl.ops.sum(repdl.ops.mul(rows, rows))

    assert_same_bits(grad(squares)(A), by_backward(squares, A))
    assert_same_bits(vmap(grad(squares))(A[None])[0], by_backward(squares, A))


def test_func__vjp() -> None:
    output, pull = vjp(lambda x: repdl.ops.mm(x, B), A)
    cotangent = uniform(3, 4, 5)
    assert_same_bits(output, repdl.ops.mm(A, B))
    assert_same_bits(pull(cotangent)[0], repdl.ops.mm(cotangent, B, transB=True))


def test_func__jacrev() -> None:
    x = uniform(1, 6)
    rows = [by_backward(lambda x, i=i: repdl.ops.softmax(x, 0)[i], x) for i in range(6)]
    assert_same_bits(jacrev(lambda x: repdl.ops.softmax(x, 0))(x), torch.stack(rows))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(uniform(1, 2, 1, 3, 3))
        self.scale = torch.nn.Parameter(uniform(2, 2))
        self.head = torch.nn.Parameter(uniform(3, 4, 18))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = repdl.ops.relu(repdl.ops.group_norm(repdl.ops.conv2d(x, self.weight), 2, self.scale, None))
        return repdl.ops.linear(x.flatten(1), self.head)


def test_func__per_sample_gradients() -> None:
    net, x, y = Net(), uniform(4, 6, 1, 5, 5), torch.arange(6) % 4

    def one(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return repdl.ops.cross_entropy(functional_call(net, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradients = vmap(grad(one), in_dims=(None, 0, 0))(dict(net.named_parameters()), x, y)
    for i in range(6):
        net.zero_grad()
        repdl.ops.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None
            assert_same_bits(gradients[name][i], parameter.grad, f"{name} of example {i}")


def test_func__vmap_along_other_dimensions_and_over_none() -> None:
    x = uniform(1, 4, 3, 6)
    expected = torch.stack([repdl.ops.mm(x[:, :, i], B) for i in range(6)], 1)
    assert_same_bits(vmap(repdl.ops.mm, in_dims=(2, None), out_dims=1)(x, B), expected)
    assert vmap(repdl.ops.mm)(torch.ones(0, 2, 3), torch.ones(0, 3, 4)).shape == (0, 2, 4)


def test_func__vmap_over_running_statistics() -> None:
    def train(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        return repdl.ops.batch_norm(x, mean, var, training=True)

    x, mean, var = uniform(1, 5, 4, 3), torch.zeros(3), torch.ones(3)
    with pytest.raises(RuntimeError, match="inplace"):
        vmap(train, in_dims=(0, None, None))(x, mean, var)
    assert_same_bits([mean, var], [torch.zeros(3), torch.ones(3)])
    means, variances = torch.zeros(5, 3), torch.ones(5, 3)
    outputs = vmap(train)(x, means, variances)
    for i in range(5):
        mean, var = torch.zeros(3), torch.ones(3)
        assert_same_bits(outputs[i], train(x[i], mean, var))
        assert_same_bits([means[i], variances[i]], [mean, var])


def test_func__forward_mode_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="forward-mode"):
        torch.func.jvp(loss, (A,), (A,))
