"""Recurrent cells: one step of an RNN, an LSTM, a GRU. Gates are ops of their own, around two products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import ArgumentError, check, check_dim, check_size
from repdl.ops.common.arithmetic import add, mul, sub
from repdl.ops.declare import public, variants
from repdl.registry import LOWER, Lists, define, functions as _ops

__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]


def _gates(
    name: str,
    inputs: Mapping[str, int],
    outputs: Sequence[int],
    setup_context: Callable[..., None],
    backward: Callable[..., Any],
    autocast: Lists | None = None,
) -> Callable[..., Any]:
    """Register `name(Tensor, ...) -> (Tensor, ...)`, a function of each element, of tensors (rows, k * size).

    Args:
        inputs: the tensors, and k, how many values of an element each of them holds.
        outputs: k of the outputs.
    """
    (lead, values), *others = inputs.items()

    def check_arguments(*tensors: Tensor) -> None:
        check_dim(name, 2, **dict(zip(inputs, tensors)))
        rows, columns = tensors[0].shape
        check(
            name, columns % values == 0, lambda: f"{lead}.shape[1] is {columns}, expected {values} columns an element"
        )
        for (other, k), tensor in zip(others, tensors[1:]):
            expected = (rows, columns // values * k)
            if tensor.shape != expected:
                source = f"{lead}.shape[0], {k} columns where {lead} has {values}"
                check_size(name, f"{other}.shape", tensor.shape, expected, source)

    def fake(*tensors: Tensor) -> tuple[Tensor, ...]:
        rows, columns = tensors[0].shape
        return tuple(tensors[0].new_empty((rows, columns // values * k)) for k in outputs)

    schema = ", ".join(f"Tensor {argument}" for argument in inputs)
    return define(
        name,
        f"({schema}) -> ({', '.join(['Tensor'] * len(outputs))})",
        check=check_arguments,
        fake=fake,
        setup_context=setup_context,
        backward=backward,
        dtypes=Dtypes(),
        autocast=autocast,
        family="cell",
    )


def _slope_of_sigmoid(y: Tensor) -> Tensor:
    return mul(sub(1, y), y)


def _slope_of_tanh(y: Tensor) -> Tensor:
    return sub(1, mul(y, y))


def _turn(y: Tensor) -> Tensor:
    """The derivative of (1 - y) y."""
    return sub(1, add(y, y))


def _setup_lstm(ctx: Any, inputs: Any, output: Any) -> None:
    _, new_cell, gates = output
    ctx.mark_non_differentiable(gates)
    ctx.save_for_backward(*inputs, gates, new_cell)


def lstm_gradients(
    grad: Tensor, grad_cell: Tensor, input: Tensor, hidden: Tensor, cell: Tensor, gates: Tensor, new_cell: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of input (and hidden) and of cell, of `lstm_gates`.

    Where they will be differentiated, gates and new_cell are computed again, op by op, with the same bits.
    """
    if torch.is_grad_enabled():
        a, b, c, d = add(input, hidden).chunk(4, 1)
        i, f, g, o = _ops.sigmoid(a), _ops.sigmoid(b), _ops.tanh(c), _ops.sigmoid(d)
        gates, new_cell = torch.cat((i, f, g, o), 1), add(mul(f, cell), mul(i, g))
    return _lstm_gates_backward(grad, grad_cell, gates, cell, new_cell)


def _backward_lstm(ctx: Any, grad: Tensor, grad_cell: Tensor, grad_gates: Any) -> Any:
    to_gates, to_cell = lstm_gradients(grad, grad_cell, *ctx.saved_tensors)
    return to_gates, to_gates, to_cell


def _setup_gru(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs, output[1])


def gru_gradients(
    grad: Tensor, input: Tensor, hidden: Tensor, state: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, hidden and state, of `gru_gates`; see `lstm_gradients`."""
    if torch.is_grad_enabled():
        (a, b), (c, d), (e, f) = zip(input.chunk(3, 1), hidden.chunk(3, 1))
        r = _ops.sigmoid(add(a, b))
        gates = torch.cat((r, _ops.sigmoid(add(c, d)), _ops.tanh(add(e, mul(r, f))), f), 1)
    return _gru_gates_backward(grad, gates, state)


def _backward_gru(ctx: Any, grad: Tensor, grad_gates: Any) -> Any:
    return gru_gradients(grad, *ctx.saved_tensors)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward_lstm_backward(ctx: Any, to_gates: Tensor, to_old: Tensor) -> Any:
    """Of grad, grad_cell, gates, cell and new_cell."""
    grad, grad_cell, gates, cell, new_cell = ctx.saved_tensors
    (i, f, g, o), (a, b, c, e) = gates.chunk(4, 1), to_gates.chunk(4, 1)
    t = _ops.tanh(new_cell)
    through, slope = mul(grad, o), _slope_of_tanh(t)
    d = add(grad_cell, mul(through, slope))
    ag, bc, ci, et = mul(a, g), mul(b, cell), mul(c, i), mul(e, t)
    si, sf, sg, so = _slope_of_sigmoid(i), _slope_of_sigmoid(f), _slope_of_tanh(g), _slope_of_sigmoid(o)
    to_d = add(add(mul(ag, si), mul(bc, sf)), add(mul(ci, sg), mul(to_old, f)))
    inner = mul(to_d, slope)
    to_i = mul(d, add(mul(ag, _turn(i)), mul(c, sg)))
    to_f = mul(d, add(mul(bc, _turn(f)), to_old))
    to_g = mul(d, sub(mul(a, si), mul(ci, add(g, g))))
    to_o = mul(grad, add(inner, mul(et, _turn(o))))
    to_new = mul(sub(mul(mul(e, grad), so), mul(mul(to_d, through), add(t, t))), slope)
    to_grad = add(mul(inner, o), mul(et, so))
    return to_grad, to_d, torch.cat((to_i, to_f, to_g, to_o), 1), mul(mul(b, d), sf), to_new


def _backward_gru_backward(ctx: Any, to_input: Tensor, to_hidden: Tensor, to_state: Tensor) -> Any:
    """Of grad, gates and state."""
    grad, gates, state = ctx.saved_tensors
    (r, z, n, hidden), (ur, uz, un), (vr, vz, vn) = gates.chunk(4, 1), to_input.chunk(3, 1), to_hidden.chunk(3, 1)
    slope, sr, sz = _slope_of_tanh(n), _slope_of_sigmoid(r), _slope_of_sigmoid(z)
    difference, rest = sub(state, n), sub(grad, mul(grad, z))
    new, reset, update = mul(rest, slope), add(ur, vr), add(uz, vz)
    to_new = add(add(un, mul(vn, r)), mul(mul(reset, hidden), sr))
    to_rest, to_update = mul(to_new, slope), mul(update, sz)
    to_kept = sub(to_state, to_rest)
    to_r = mul(new, add(vn, mul(mul(reset, hidden), _turn(r))))
    to_z = mul(grad, add(to_kept, mul(mul(update, difference), _turn(z))))
    to_n = sub(mul(mul(to_new, rest), mul(n, -2)), mul(to_update, grad))
    to_gates = torch.cat((to_r, to_z, to_n, mul(mul(reset, new), sr)), 1)
    to_grad = add(add(to_rest, mul(to_kept, z)), mul(to_update, difference))
    return to_grad, to_gates, mul(to_update, grad)


_lstm_gates = _gates("lstm_gates", {"input": 4, "hidden": 4, "cell": 1}, (1, 1, 4), _setup_lstm, _backward_lstm, LOWER)
_lstm_gates_backward = _gates(
    "lstm_gates_backward",
    {"grad": 1, "grad_cell": 1, "gates": 4, "cell": 1, "new_cell": 1},
    (4, 1),
    _save,
    _backward_lstm_backward,
)
_gru_gates = _gates("gru_gates", {"input": 3, "hidden": 3, "state": 1}, (1, 4), _setup_gru, _backward_gru, LOWER)
_gru_gates_backward = _gates(
    "gru_gates_backward", {"grad": 1, "gates": 4, "state": 1}, (3, 3, 1), _save, _backward_gru_backward
)


def _products(
    op: str,
    gates: int,
    input: Tensor,
    states: Mapping[str, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
    contract: str,
) -> tuple[Tensor, Tensor]:
    """What a step adds: the product of the input and that of the hidden state, each with its bias."""
    check_dim(op, (1, 2), input=input)
    check_dim(op, input.dim(), **states)
    check_dim(op, 2, w_ih=w_ih, w_hh=w_hh)
    check_dim(op, 1, b_ih=b_ih, b_hh=b_hh)
    hidden = next(iter(states.values()))
    size = w_hh.shape[1]
    check_size(op, "input.shape[-1]", input.shape[-1], w_ih.shape[1], "w_ih.shape[1], input_size")
    for name, weight in (("w_ih", w_ih), ("w_hh", w_hh), ("b_ih", b_ih), ("b_hh", b_hh)):
        if weight is not None:
            check_size(op, f"{name}.shape[0]", weight.shape[0], gates * size, f"{gates} * w_hh.shape[1], hidden_size")
    for name, state in states.items():
        expected = (*input.shape[:-1], size)
        check_size(op, f"{name}.shape", state.shape, expected, "the batch of input, w_hh.shape[1]")
    products = _ops.linear(_row(input), w_ih, b_ih, contract), _ops.linear(_row(hidden), w_hh, b_hh, contract)
    return products  # type: ignore[return-value]


def _row(tensor: Tensor) -> Tensor:
    """(rows, size), or one row of a vector."""
    return tensor if tensor.dim() == 2 else tensor.unsqueeze(0)


@public("cell", page="generated/torch.nn.LSTMCell")
def lstm_cell(
    input: Tensor,
    hx: tuple[Tensor, Tensor] | list[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: `(N, I), ((N, H), (N, H)) -> (N, H), (N, H)`, the hidden state and the cell.

    Any floating-point dtype.

    Args:
        input: (N, I) or (I).
        hx: hidden state and cell, (N, H) each, or (H).
        w_ih, w_hh: (4 * H, I) and (4 * H, H): input, forget, cell and output gate.
        b_ih, b_hh: (4 * H) or None.

    Raises:
        ShapeError: if sizes do not fit together.
        ArgumentError: if `hx` is not a pair of tensors.
    """
    if not isinstance(hx, (list, tuple)) or len(hx) != 2:
        raise ArgumentError(f"lstm_cell: hx is {type(hx).__name__}, expected a pair of tensors (hidden state, cell)")
    states = {"hx[0]": hx[0], "hx[1]": hx[1]}
    products = _products("lstm_cell", 4, input, states, w_ih, w_hh, b_ih, b_hh, contract)
    output, cell, _ = _lstm_gates(*products, _row(hx[1]))
    return (output, cell) if input.dim() == 2 else (output.squeeze(0), cell.squeeze(0))


@public("cell", page="generated/torch.nn.GRUCell")
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """One step of a GRU: `(N, I), (N, H) -> (N, H)`, any floating-point dtype.

    Args:
        input: (N, I) or (I).
        hx: the hidden state, (N, H) or (H).
        w_ih, w_hh: (3 * H, I) and (3 * H, H): reset, update and new gate.
        b_ih, b_hh: (3 * H) or None.

    Raises:
        ShapeError: if sizes do not fit together.
    """
    products = _products("gru_cell", 3, input, {"hx": hx}, w_ih, w_hh, b_ih, b_hh, contract)
    output, _ = _gru_gates(*products, _row(hx))
    return output if input.dim() == 2 else output.squeeze(0)


def _rnn_cell(
    op: str,
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    sums = _ops.add(*_products(op, 1, input, {"hx": hx}, w_ih, w_hh, b_ih, b_hh, contract), contract)
    output = _ops.tanh(sums) if op == "rnn_tanh_cell" else _ops.relu(sums)
    return output if input.dim() == 2 else output.squeeze(0)


_DOCS = {
    "rnn_tanh_cell": """One step of an RNN with tanh: `(N, I), (N, H) -> (N, H)`, any floating-point dtype.

    Args:
        input: (N, I) or (I).
        hx: the hidden state, (N, H) or (H).
        w_ih, w_hh: (H, I) and (H, H).
        b_ih, b_hh: (H) or None.

    Raises:
        ShapeError: if sizes do not fit together.
    """,
    "rnn_relu_cell": """One step of an RNN with relu: `(N, I), (N, H) -> (N, H)`, any floating-point dtype.

    Args:
        As of `rnn_tanh_cell`.

    Raises:
        ShapeError: if sizes do not fit together.
    """,
}
rnn_tanh_cell, rnn_relu_cell = variants(_rnn_cell, "cell", _DOCS, page="generated/torch.nn.RNNCell")
