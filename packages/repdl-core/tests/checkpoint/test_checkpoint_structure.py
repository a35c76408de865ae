"""What a checkpoint can hold comes back bit for bit; what it can't is refused with its path."""

from __future__ import annotations

import collections
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors import safe_open

from repdl import checkpoint
from repdl.checkpoint.format import read_header
from repdl.checkpoint.structure import DTYPES, Encoder, decode
from repdl.digest import digest
from repdl.errors import CheckpointError

NANS = [struct.unpack(">d", bytes.fromhex(bits))[0] for bits in ("7ff8000000000000", "fff8000000000001")]


def there_and_back(value: Any) -> Any:
    encoder = Encoder()
    return decode(encoder.encode("value", value), encoder.tensors)


def same(a: Any, b: Any) -> bool:
    """Of one type, and equal by bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same([a.real, a.imag], [b.real, b.imag])
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and digest(a) == digest(b)
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def test_structure__values_come_back() -> None:
    values = [
        *(
            None,
            True,
            0,
            -1,
            2**53,
            -(2**300),
            "",
            "\ud800 'x' / \u00e9\n",
            b"",
            b"\x00\xff",
            1j,
            complex(-0.0, math.inf),
        ),
        *(0.0, -0.0, math.inf, -math.inf, 5e-324, 0.1, *NANS),
        *((), (1, [2, (3,)]), set(), {1, "a", (2, 3)}, frozenset({1.5}), [], {}, {0: 1, "0": 2, (1, None): {}}),
        *(collections.OrderedDict(b=1, a=2), collections.Counter([3, 3, 5])),
        *(torch.float32, torch.device("cuda", 1), torch.Size([2, 3])),
        *(np.float32(0.1), np.float64(-0.0), np.int8(-3), np.bool_(True), np.arange(6).reshape(2, 3)[:, ::2]),
    ]
    for value in values:
        assert same(there_and_back(value), value), repr(value)


def test_structure__views_of_one_memory_that_differ_in_one_property() -> None:
    """Each comes back as it was, however it is before or after the others; equal views share a tensor."""
    x = torch.arange(16.0).reshape(4, 4)
    z = torch.complex(x, x + 1)
    views = [
        *(x, x.t(), x[1:], x[:3], x[:, :3], x.view(torch.int32), x.reshape(2, 8), x[:2].as_strided((4, 4), (2, 1))),
        *(z, z.conj(), z.t(), z.conj().imag, z.imag),
    ]
    for values in (views, views[::-1]):
        found = there_and_back(values)
        assert all(map(same, found, values))
    for view in views:
        encoder = Encoder()
        encoder.encode("value", [view, view.detach()])
        assert len(encoder.tensors) == 1


def test_structure__tensors_of_every_dtype_and_layout(tmp_path: Path) -> None:
    """And safetensors' own reader finds the same."""
    torch.manual_seed(0)
    kept: dict[str, torch.Tensor] = {}
    for name, dtype in DTYPES.items():
        raw = torch.randint(256, (6, 4 * dtype.itemsize), dtype=torch.uint8)
        kept[name] = raw % 2 == 1 if dtype == torch.bool else raw.view(dtype)
    odd = [
        "bcomplex32",
        "complex32",
        "float4_e2m1fn_x2",
        *(n for n in kept if n.startswith(("uint", "int", "bits")) and n[-1:] in "1234567"),
    ]
    kept = {name: t for name, t in kept.items() if name not in odd or name in ("uint16", "int16", "uint64", "int64")}
    kept = {name: t for name, t in kept.items() if "fnuz" not in name and not name.startswith("bits")}
    x = torch.randn(4, 6)
    kept |= {
        "transposed": x.t(),
        "every other": x[:, ::2],
        "empty": x[:0],
        "scalar": x.sum(),
        "conj": x.to(torch.complex64).conj(),
    }
    checkpoint.save(tmp_path / "c", extra=kept)
    found = checkpoint.load(tmp_path / "c").extra
    assert found.keys() == kept.keys() and len(kept) > 15
    entries = read_header(tmp_path / "c").tensors
    for name, tensor in kept.items():
        assert same(found[name], tensor), name
        assert entries[f"extra/{name}"].digest == digest(tensor), name
    with safe_open(tmp_path / "c", "pt") as file:
        for name, tensor in kept.items():
            theirs = file.get_tensor(f"extra/{name}")
            whole = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
            assert same(theirs, whole), name


def test_structure__tensors_in_one_memory_are_kept_once(tmp_path: Path) -> None:
    x = torch.ones(1000)
    checkpoint.save(tmp_path / "c", extra={"a": x, "b": x, "c": x.clone(), "part": x[:10]})
    found = checkpoint.load(tmp_path / "c").extra
    assert found["a"] is found["b"] and found["a"] is not found["c"]
    assert 8000 < (tmp_path / "c").stat().st_size < 8000 + 40 + 30000


class Odd(dict):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize(
    "value",
    [object(), print, Odd(), torch.nn.Linear(1, 1), collections.defaultdict(int), torch.ones(1, device="meta")]
    + [
        np.array(["a"]),
        np.array([None]),
        torch.eye(2).to_sparse_csr(),
        range(3),
        np.zeros(2, ">f4"),
        {torch.ones(1): 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_structure__what_is_no_data_is_refused_with_its_path(value: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="extra/here/1"):
        checkpoint.save(tmp_path / "c", extra={"here": [0, value]})
    assert not (tmp_path / "c").exists()


def test_structure__a_cycle_is_refused(tmp_path: Path) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(CheckpointError, match="holds itself"):
        checkpoint.save(tmp_path / "c", extra=cycle)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner) | st.sets(KEYS),
        max_leaves=20,
    )
)
def test_structure__any_nest_comes_back(value: Any) -> None:
    assert same(there_and_back(value), value)


@pytest.mark.parametrize(
    "tree",
    [{"os.system": "x"}, {"tensor": "x"}, {"dtype": "nn"}, {"int": "z"}, {}, {"numpy": ["O", ""]}, 1.5, {"float": 3}],
)
def test_structure__other_json_is_refused(tree: Any) -> None:
    with pytest.raises(CheckpointError, match="can't be read"):
        decode(tree, {})
