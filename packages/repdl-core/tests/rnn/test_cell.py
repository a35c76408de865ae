"""Recurrent cells against torch in float64, their gates op by op, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.errors import ArgumentError, ShapeError
from repdl.ops.rnn.cell import _gru_gates, _lstm_gates
from repdl.registry import functions
from repdl.testing import assert_same_bits, uniform

# Two products of at most 9 terms below 4, and a dozen roundings of values below 8.
BOUND = 2.0**-17
CELLS = {"lstm_cell": 4, "gru_cell": 3, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}


def operands(gates: int, bias: bool = True, batch: tuple[int, ...] = (6,)) -> list[Any]:
    """input, hx, w_ih, w_hh, b_ih, b_hh, of input size 5 and hidden size 9."""
    h = uniform(2, *batch, 9)
    biases = [uniform(5, gates * 9), uniform(6, gates * 9)] if bias else [None, None]
    hx = (h, uniform(7, *batch, 9)) if gates == 4 else h
    return [uniform(1, *batch, 5, scale=2.0), hx, uniform(3, gates * 9, 5), uniform(4, gates * 9, 9), *biases]


def leaves(args: list[Any], dtype: torch.dtype) -> tuple[list[Any], list[torch.Tensor]]:
    """The arguments as leaves, and a list of those."""
    found: list[torch.Tensor] = []

    def leaf(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(leaf(v) for v in value)
        if value is None:
            return None
        found.append(value.detach().to(dtype).requires_grad_())
        return found[-1]

    return [leaf(a) for a in args], found


def flat(result: Any) -> torch.Tensor:
    return torch.cat([r.flatten() for r in (result if isinstance(result, tuple) else (result,))])


def derived(function: Callable[..., Any], args: list[Any], dtype: torch.dtype) -> list[torch.Tensor]:
    """Outputs, first derivatives, and derivatives of the sum of their squares."""
    given, wanted = leaves(args, dtype)
    output = flat(function(*given))
    first = torch.autograd.grad(output, wanted, uniform(8, *output.shape).to(dtype), create_graph=True)
    squares = sum((g * g).sum() for g in first)
    return [t.detach() for t in (output, *first, *torch.autograd.grad(squares, wanted))]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CELLS)
def test_cell__is_torchs(name: str) -> None:
    for bias in (True, False):
        for batch in ((6,), (1,), (0,), ()):
            args = operands(CELLS[name], bias, batch)
            mine, theirs = getattr(ops, name), getattr(torch, name)
            if not batch:
                mine(*args)  # torch's function takes no vector: its modules add the dimension
                continue
            pairs = zip(derived(mine, args, torch.float32), derived(theirs, args, torch.float64), strict=True)
            for i, (a, e) in enumerate(pairs):
                scale = max(1.0, float(e.abs().max())) if e.numel() else 1.0
                assert a.shape == e.shape
                assert e.numel() == 0 or (a.double() - e).abs().max() <= BOUND * scale, (name, bias, batch, i)


@pytest.mark.parametrize("name", CELLS)
def test_cell__a_vector_is_a_row(name: str) -> None:
    vector = operands(CELLS[name], batch=())
    rows = [tuple(t.unsqueeze(0) for t in a) if isinstance(a, tuple) else a for a in vector]
    rows[0] = rows[0].unsqueeze(0)
    rows[1] = rows[1] if isinstance(rows[1], tuple) else rows[1].unsqueeze(0)
    assert_same_bits(flat(getattr(ops, name)(*vector)), flat(getattr(ops, name)(*rows)))


@pytest.mark.parametrize("name", CELLS)
def test_cell__a_row_does_not_depend_on_the_batch(name: str) -> None:
    args = operands(CELLS[name], batch=(33,))
    whole = getattr(ops, name)(*args)
    whole = whole if isinstance(whole, tuple) else (whole,)
    for i in (0, 7, 32):
        hx = tuple(h[i] for h in args[1]) if isinstance(args[1], tuple) else args[1][i]
        alone = getattr(ops, name)(args[0][i], hx, *args[2:])
        assert_same_bits(
            torch.stack(alone if isinstance(alone, tuple) else (alone,)), torch.stack([w[i] for w in whole])
        )


def test_cell__gates_are_their_formulas() -> None:
    """Fused or op by op: the same bits, of special values too."""
    for special in (False, True):
        kind: dict[str, Any] = {"special": special}
        x, h, c = (uniform(i, 40, k * 19, **kind) for i, k in ((1, 4), (2, 4), (3, 1)))
        output, cell, gates = _lstm_gates(x, h, c)
        i, f, g, o = (gates[:, k * 19 : (k + 1) * 19] for k in range(4))
        assert_same_bits(i, ops.sigmoid(ops.add(x[:, :19], h[:, :19])))
        assert_same_bits(g, ops.tanh(ops.add(x[:, 38:57], h[:, 38:57])))
        assert_same_bits(cell, ops.add(ops.mul(f, c), ops.mul(i, g)))
        assert_same_bits(output, ops.mul(o, ops.tanh(cell)))
        x, h, c = (uniform(i, 40, k * 19, **kind) for i, k in ((1, 3), (2, 3), (3, 1)))
        output, gates = _gru_gates(x, h, c)
        _, z, n, hidden = gates.chunk(4, 1)
        assert_same_bits(hidden, h[:, 38:])
        assert_same_bits(n, ops.tanh(ops.add(x[:, 38:], ops.mul(gates[:, :19], hidden))))
        assert_same_bits(output, ops.add(ops.mul(ops.sub(c, n), z), n))


def test_cell__first_derivatives_have_the_same_bits_where_they_are_differentiated() -> None:
    for name in ("lstm_cell", "gru_cell"):
        results = []
        for twice in (False, True):
            given, wanted = leaves(operands(CELLS[name]), torch.float32)
            output = flat(getattr(ops, name)(*given))
            results.append(torch.autograd.grad(output, wanted, uniform(8, *output.shape), create_graph=twice))
        for a, b in zip(*results, strict=True):
            assert_same_bits(a, b)


def _lstm_by_torch(grad: Any, grad_cell: Any, gates: Any, cell: Any, new: Any) -> Any:
    i, f, g, o = gates.chunk(4, 1)
    d = grad_cell + grad * o * (1 - new.tanh() ** 2)
    sums = d * g * i * (1 - i), d * cell * f * (1 - f), d * i * (1 - g * g), grad * new.tanh() * o * (1 - o)
    return torch.cat(sums, 1), d * f


def _gru_by_torch(grad: Any, gates: Any, state: Any) -> Any:
    r, z, n, hidden = gates.chunk(4, 1)
    new = grad * (1 - z) * (1 - n * n)
    reset, update = new * hidden * r * (1 - r), grad * (state - n) * z * (1 - z)
    return torch.cat((reset, update, new), 1), torch.cat((reset, update, new * r), 1), grad * z


def test_cell__derivatives_of_the_backward_ops() -> None:
    """Of all operands, first and second, against torch's of the same formulas."""
    for name, counts, formula in (
        ("lstm_gates_backward", (1, 1, 4, 1, 1), _lstm_by_torch),
        ("gru_gates_backward", (1, 4, 1), _gru_by_torch),
    ):
        args = [uniform(i, 6, k * 9) for i, k in enumerate(counts, 1)]
        mine, theirs = derived(getattr(functions, name), args, torch.float32), derived(formula, args, torch.float64)
        for a, e in zip(mine, theirs, strict=True):
            assert (a.double() - e).abs().max() <= BOUND * max(1.0, float(e.abs().max())), name


@pytest.mark.parametrize("name", CELLS)
def test_cell__float64(name: str) -> None:
    args, found = leaves(operands(CELLS[name], batch=(2,)), torch.float64)
    assert torch.autograd.gradcheck(lambda *_: getattr(ops, name)(*args), found)
    assert torch.autograd.gradgradcheck(lambda *_: getattr(ops, name)(*args), found, fast_mode=True)


@pytest.mark.parametrize("name", CELLS)
def test_cell__errors(name: str) -> None:
    function, (x, hx, w_ih, w_hh, b_ih, b_hh) = getattr(ops, name), operands(CELLS[name])
    pair = isinstance(hx, tuple)
    with pytest.raises(ShapeError, match=rf"{name}: input.shape\[-1\] is 4, expected 5"):
        function(x[:, :4], hx, w_ih, w_hh, b_ih, b_hh)
    with pytest.raises(ShapeError, match=r"hx.*shape is \(5, 9\), expected \(6, 9\)"):
        function(x, (hx[0][:5], hx[1]) if pair else hx[:5], w_ih, w_hh, b_ih, b_hh)
    with pytest.raises(ShapeError, match=r"w_ih.shape\[0\]"):
        function(x, hx, w_ih[:-1], w_hh, b_ih, b_hh)
    with pytest.raises(ShapeError, match=r"b_hh.shape\[0\]"):
        function(x, hx, w_ih, w_hh, b_ih, b_hh[:-1])
    with pytest.raises(ShapeError, match=r"dim\(\)"):
        function(x[0], hx, w_ih, w_hh, b_ih, b_hh)
    with pytest.raises(ArgumentError, match="expected a tensor"):
        function(x, hx, w_ih, w_hh, 3)
    if pair:
        with pytest.raises(ArgumentError, match="hx is Tensor, expected a pair"):
            function(x, hx[0], w_ih, w_hh, b_ih, b_hh)


def test_cell__autocast() -> None:
    for name, gates in CELLS.items():
        args = operands(gates)
        halves = [a.bfloat16() if isinstance(a, torch.Tensor) else tuple(t.bfloat16() for t in a) for a in args]
        with torch.autocast("cpu", torch.bfloat16):
            result = flat(getattr(ops, name)(*args))
        assert_same_bits(result, flat(getattr(ops, name)(*halves)))
