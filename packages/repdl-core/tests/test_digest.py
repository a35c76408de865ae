"""Digests: what counts, what does not."""

from __future__ import annotations

import copy
import hashlib
import struct
from collections import OrderedDict

import numpy as np
import pytest
import torch

import repdl
from repdl.testing import uniform
from repdl.utils import get_hash, print_hash


def model() -> torch.nn.Module:
    """Two layers, one with buffers, of fixed values."""
    net = torch.nn.Sequential(OrderedDict(a=torch.nn.Linear(3, 2), b=torch.nn.BatchNorm1d(2)))
    with torch.no_grad():
        for seed, parameter in enumerate(net.parameters()):
            parameter.copy_(uniform(seed, *parameter.shape))
    return net


def test_digest__pinned() -> None:
    header = b'["", "float32[2]", 8]'
    payload = struct.pack("<2f", 1.0, -2.5)
    right = hashlib.sha256(len(header).to_bytes(8, "little") + header + payload).hexdigest()
    assert repdl.digest(torch.tensor([1.0, -2.5])) == right


def test_digest__dtype_shape_and_value_count() -> None:
    x = uniform(1, 4, 3)
    variants = [x, x.reshape(3, 4), x.reshape(12), x.view(torch.int32), x.double(), x + 1, x.t(), x[:0], x[:, :0]]
    variants += [torch.zeros(2), -torch.zeros(2), torch.zeros(2, 1), torch.tensor(0.0), torch.zeros(1)]
    assert len({repdl.digest(v) for v in variants}) == len(variants)


def test_digest__layout_does_not_count() -> None:
    x = uniform(1, 2, 3, 4, 5)
    expected = repdl.digest(x)
    wide = torch.zeros(2, 3, 4, 10)
    wide[..., ::2] = x
    for same in (
        x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        x.to(memory_format=torch.channels_last),
        wide[..., ::2],
        x.clone().requires_grad_(),
        torch.nn.Parameter(x.clone()),
    ):
        assert repdl.digest(same) == expected
    row = uniform(2, 1, 5)
    assert repdl.digest(row.expand(3, 5)) == repdl.digest(row.repeat(3, 1))
    z = torch.complex(uniform(3, 4), uniform(4, 4))
    assert repdl.digest(z.conj()) == repdl.digest(z.conj().resolve_conj().clone())
    assert repdl.digest(z.conj()) != repdl.digest(z)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.int64, torch.complex64])
def test_digest__any_dtype(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert repdl.digest(x) == repdl.digest(x.clone())
    assert repdl.digest(x) != repdl.digest(x.flip(0).roll(1))


def test_digest__order_of_insertion_does_not_count() -> None:
    x, y = uniform(1, 2), uniform(2, 3)
    assert repdl.digest({"x": x, "y": y}) == repdl.digest({"y": y, "x": x})
    state = model().state_dict()
    backwards = OrderedDict(reversed(list(state.items())))
    assert list(backwards) != list(state)
    assert repdl.digest(backwards) == repdl.digest(state)


def test_digest__names_and_nesting_count() -> None:
    x, y = uniform(1, 2), uniform(2, 2)
    nests = [
        *({"x": x, "y": y}, {"x": y, "y": x}, {"x": x, "z": y}, {"x": x}, [x, y], [y, x], [x], [[x], y], x, {}, []),
        *({1: x}, {"1": x}, {"a": {"b": x}}, {"a/str:b": x}, {"a": [x]}, {"a": {"0": x}}),
        *(None, True, 1, 1.0, "1", -0.0, 0.0, torch.float32, torch.device("cpu")),
    ]
    assert len({repdl.digest(nest) for nest in nests}) == len(nests)


def test_digest__module_is_its_state_with_buffers() -> None:
    net = model()
    assert repdl.digest(net) == repdl.digest(dict(net.state_dict())) == repdl.digest(copy.deepcopy(net))
    changed = copy.deepcopy(net)
    changed.b.running_mean += 1.0
    assert repdl.digest(changed) != repdl.digest(net)
    assert get_hash(changed) == get_hash(net), "get_hash takes parameters only"


def test_digest__buffers_that_are_not_saved_count() -> None:
    net, other = model(), model()
    net.register_buffer("extra", torch.zeros(1), persistent=False)
    other.register_buffer("extra", torch.ones(1), persistent=False)
    assert repdl.digest(net) != repdl.digest(other)


@pytest.mark.parametrize("is_parameter", [True, False])
def test_digest__every_name_of_a_shared_tensor_counts(is_parameter: bool) -> None:
    """A copy, whose tensors are apart, has the same digest."""

    def module(first: torch.Tensor, second: torch.Tensor) -> torch.nn.Module:
        net = torch.nn.Module()
        for name, tensor in (("first", first), ("second", second)):
            if is_parameter:
                net.register_parameter(name, tensor)
            else:
                net.register_buffer(name, tensor)
        return net

    x, y = (torch.nn.Parameter(uniform(1, 3)) for _ in range(2))
    assert x is not y and repdl.digest(module(x, x)) == repdl.digest(module(x, y))


def test_digest__optimizer() -> None:
    def trained(steps: int) -> torch.optim.Optimizer:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
        for _ in range(steps):
            for seed, parameter in enumerate(net.parameters()):
                parameter.grad = uniform(seed + 9, *parameter.shape)
            optimizer.step()
        return optimizer

    assert repdl.digest(trained(2)) == repdl.digest(trained(2)) == repdl.digest(trained(2).state_dict())
    assert repdl.digest(trained(1)) != repdl.digest(trained(2))
    slower = trained(2)
    slower.param_groups[0]["lr"] = 0.25
    assert repdl.digest(slower) != repdl.digest(trained(2))


def test_digest__without_content() -> None:
    with pytest.raises(TypeError, match="digest: /str:a/0 is a function"):
        repdl.digest({"a": [lambda: 0]})


def test_get_hash__parameter_bytes() -> None:
    net = model()
    total = b"".join(p.detach().numpy().astype("<f4").tobytes() for p in net.parameters())
    assert get_hash(net) == hashlib.sha256(total).hexdigest()
    x = uniform(1, 3, 4)
    assert get_hash(x.t()) == hashlib.sha256(np.ascontiguousarray(x.numpy().T).astype("<f4").tobytes()).hexdigest()
    assert get_hash(torch.empty(0)) == hashlib.sha256(b"").hexdigest()


def test_get_hash__neither_tensor_nor_module() -> None:
    with pytest.raises(TypeError, match="get_hash: x is a list"):
        get_hash([1.0])  # type: ignore[arg-type]


def test_print_hash__prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_hash(uniform(1, 3))
    assert capsys.readouterr().out == get_hash(uniform(1, 3)) + "\n"
