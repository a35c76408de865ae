"""Layers of an RNN, an LSTM, a GRU: the steps of one direction over a batch of sequences, one op each.

The rows of a batch are packed as in torch's PackedSequence: those of step 0 first, then those of step 1, and so
on; sequences are sorted by length, so that step t has the first `batch_sizes[t]` of them. A batch without padding
is the case of equal sizes. The derivative is one of the layer, as that of a weight is one sum over all steps.
A formula is what an op computes, step by step; a backend may have a kernel of all steps for float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.common.arithmetic import mul, sub
from repdl.ops.rnn._steps import (
    State,
    began_with,
    blocks_of,
    check_layer,
    joined,
    none_like,
    order_of,
    per_step,
    product_of,
    walk,
    weight_gradients,
)
from repdl.ops.rnn.cell import gru_gradients, lstm_gradients
from repdl.registry import LOWER, composite, functions as _ops

__all__: list[str] = []


# RNN


def _activated(sums: Tensor, nonlinearity: str) -> Tensor:
    return _ops.tanh(sums) if nonlinearity == "tanh" else _ops.relu(sums)


def _check_rnn(
    input: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    batch_sizes: Sequence[int],
    reverse: bool,
    nonlinearity: str,
    contract: str,
) -> None:
    kinds = "tanh", "relu"
    check("rnn_layer", nonlinearity in kinds, lambda: f"nonlinearity is {nonlinearity!r}, expected 'tanh' or 'relu'")
    check_layer("rnn_layer", 1, input, hidden, weight, bias, batch_sizes)


def _rnn(
    input: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sequence[int],
    reverse: bool,
    nonlinearity: str,
    c: str,
) -> tuple[Tensor, Tensor]:
    rows = blocks_of(input, sizes)
    made = per_step(sizes)

    def step(t: int, state: State) -> State:
        made[t] = _activated(_ops.add(rows[t], _ops.linear(state[0], weight, bias, c), c), nonlinearity)
        return (made[t],)

    (last,) = walk((hidden,), order_of(sizes, reverse), sizes, step)
    return joined(made), last


def _setup_rnn(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.sizes, ctx.reverse, ctx.nonlinearity, ctx.contract = inputs
    ctx.save_for_backward(*tensors, output[0])


def _backward_rnn(ctx: Any, grad: Tensor, grad_last: Tensor) -> Any:
    *tensors, output = ctx.saved_tensors
    _, hidden, weight, _ = tensors
    sizes, reverse, c = ctx.sizes, ctx.reverse, ctx.contract
    if torch.is_grad_enabled():  # a derivative of this one goes through the steps
        output, _ = _rnn(*tensors, sizes, reverse, ctx.nonlinearity, c)  # type: ignore[call-arg]
    grads, outputs = blocks_of(grad, sizes), blocks_of(output, sizes)
    to_sums = per_step(sizes)

    def step(t: int, state: State) -> State:
        whole, y = _ops.add(grads[t], state[0], c), outputs[t]
        slope = _ops.relu_backward(whole, y) if ctx.nonlinearity == "relu" else mul(whole, sub(1, mul(y, y)))
        to_sums[t] = slope
        return (_ops.matmul(slope, weight, False, False, c),)

    (to_hidden,) = walk((grad_last,), order_of(sizes, not reverse), sizes, step)
    to_input = joined(to_sums)
    weights = weight_gradients(ctx, 2, to_input, joined(began_with(output, hidden, sizes, reverse)), c)
    return to_input, to_hidden, *weights, None, None, None, None


rnn_layer: Callable[..., tuple[Tensor, Tensor]] = composite(
    "rnn_layer",
    "(Tensor input, Tensor hidden, Tensor weight, Tensor? bias, int[] batch_sizes, bool reverse, str nonlinearity, "
    "str contract) -> (Tensor, Tensor)",
    _rnn,
    calls=("add", "linear", "matmul", "mul", "relu", "relu_backward", "sub", "sum", "tanh"),
    check=_check_rnn,
    fake=lambda input, hidden, *rest: (input.new_empty(input.shape), hidden.new_empty(hidden.shape)),
    setup_context=_setup_rnn,
    backward=_backward_rnn,
    dtypes=Dtypes(keeps_16_bit=True),
    autocast=LOWER,
    family="recurrent",
)


# LSTM


def _check_lstm(
    input: Tensor,
    hidden: Tensor,
    cell: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    batch_sizes: Sequence[int],
    reverse: bool,
    saves: bool,
    contract: str,
    op: str = "lstm_layer",
) -> None:
    size = check_layer(op, 4, input, hidden, weight, bias, batch_sizes)
    check_dim(op, 2, cell=cell, projection=projection)
    check_size(op, "cell.shape", cell.shape, (batch_sizes[0], size), "batch_sizes[0], weight.shape[0] / 4")
    if projection is None:
        check_size(op, "hidden.shape[1]", hidden.shape[1], size, "weight.shape[0] / 4")
    else:
        source = "hidden.shape[1], weight.shape[0] / 4"
        check_size(op, "projection.shape", projection.shape, (hidden.shape[1], size), source)


def _lstm(
    input: Tensor,
    hidden: Tensor,
    cell: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    sizes: Sequence[int],
    reverse: bool,
    saves: bool,
    c: str,
) -> tuple[Tensor, ...]:
    rows = blocks_of(input, sizes)
    outputs, cells, gates = (per_step(sizes) for _ in range(3))

    def step(t: int, state: State) -> State:
        output, cells[t], gates[t] = _ops.lstm_gates(rows[t], _ops.linear(state[0], weight, bias, c), state[1])
        outputs[t] = output if projection is None else _ops.linear(output, projection, None, c)
        return outputs[t], cells[t]

    last = walk((hidden, cell), order_of(sizes, reverse), sizes, step)
    if saves:
        return joined(outputs), *last, joined(cells), joined(gates)
    return joined(outputs), *last, none_like(cell, cell.shape[1]), none_like(cell, input.shape[1])


def _fake_lstm(input: Tensor, hidden: Tensor, cell: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    saved = input.shape[0] if rest[5] else 0
    shapes = ((input.shape[0], hidden.shape[1]), hidden.shape, cell.shape)
    return tuple(input.new_empty(s) for s in (*shapes, (saved, cell.shape[1]), (saved, input.shape[1])))


def _setup_lstm(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.sizes, ctx.reverse, ctx.saves, ctx.contract = inputs
    made, _, _, cells, gates = output
    ctx.mark_non_differentiable(cells, gates)
    ctx.save_for_backward(*tensors, made, cells, gates)


class _Made(NamedTuple):
    """What the derivative takes: gradients, the arguments of the layer, and what it made and saved."""

    grad: Tensor
    grad_hidden: Tensor
    grad_cell: Tensor
    hidden: Tensor
    cell: Tensor
    weight: Tensor
    projection: Tensor | None
    output: Tensor
    cells: Tensor
    gates: Tensor
    batch_sizes: Sequence[int]
    reverse: bool
    contract: str


def _check_lstm_backward(*given: Any) -> None:
    op, made = "lstm_layer_backward", _Made(*given)
    hidden, cell, gates = made.hidden, made.cell, made.gates
    layer = gates, hidden, cell, made.weight, None, made.projection, made.batch_sizes, made.reverse
    _check_lstm(*layer, saves=True, contract=made.contract, op=op)
    rows = gates.shape[0]
    for name, tensor, shape, source in (
        ("grad", made.grad, (rows, hidden.shape[1]), "the shape of the output"),
        ("grad_hidden", made.grad_hidden, tuple(hidden.shape), "hidden.shape"),
        ("grad_cell", made.grad_cell, tuple(cell.shape), "cell.shape"),
        ("output", made.output, (rows, hidden.shape[1]), "the rows of gates, hidden.shape[1]"),
        ("cells", made.cells, (rows, cell.shape[1]), "the rows of gates, cell.shape[1]"),
    ):
        check_size(op, f"{name}.shape", tensor.shape, shape, source)


def _lstm_backward(*given: Any, sums: tuple[Tensor, Tensor | None] | None = None) -> tuple[Tensor, ...]:
    """The gradients of input, hidden and cell, what each step began with, and with a projection the gradients of its
    results.

    Args:
        sums: input and bias, where gates are to be functions of them.
    """
    grad, grad_hidden, grad_cell, hidden, cell, weight, projection, output, cells, gates, sizes, reverse, c = given
    before, cells_before = (began_with(*of, sizes, reverse) for of in ((output, hidden), (cells, cell)))
    grads, of_cells, of_gates = (blocks_of(t, sizes) for t in (grad, cells, gates))
    rows = () if sums is None else blocks_of(sums[0], sizes)
    to_sums, to_outputs = (per_step(sizes) for _ in range(2))

    def step(t: int, state: State) -> State:
        to_outputs[t] = whole = _ops.add(grads[t], state[0], c)
        if projection is not None:
            whole = _ops.matmul(whole, projection, False, False, c)
        if sums is None:
            to_sums[t], to_cell = _ops.lstm_gates_backward(whole, state[1], of_gates[t], cells_before[t], of_cells[t])
        else:
            product = _ops.linear(before[t], weight, sums[1], c)
            to_sums[t], to_cell = lstm_gradients(
                whole, state[1], rows[t], product, cells_before[t], of_gates[t], of_cells[t]
            )
        return _ops.matmul(to_sums[t], weight, False, False, c), to_cell

    last = walk((grad_hidden, grad_cell), order_of(sizes, not reverse), sizes, step)
    to_output = none_like(hidden, hidden.shape[1]) if projection is None else joined(to_outputs)
    return joined(to_sums), *last, joined(before), to_output


def _fake_lstm_backward(
    grad: Tensor, grad_hidden: Tensor, grad_cell: Tensor, hidden: Tensor, cell: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    _, projection, _, _, gates, *_ = rest
    projected = (0 if projection is None else grad.shape[0]), hidden.shape[1]
    return tuple(grad.new_empty(s) for s in (gates.shape, hidden.shape, cell.shape, grad.shape, projected))


lstm_layer_backward: Callable[..., tuple[Tensor, ...]] = composite(
    "lstm_layer_backward",
    "(Tensor grad, Tensor grad_hidden, Tensor grad_cell, Tensor hidden, Tensor cell, Tensor weight, "
    "Tensor? projection, Tensor output, Tensor cells, Tensor gates, int[] batch_sizes, bool reverse, str contract) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _lstm_backward,
    calls=("add", "lstm_gates_backward", "matmul"),
    check=_check_lstm_backward,
    fake=_fake_lstm_backward,
    dtypes=Dtypes(keeps_16_bit=True),
    family="recurrent",
)


def _backward_lstm(ctx: Any, grad: Tensor, grad_hidden: Tensor, grad_cell: Tensor, *_saved: Any) -> Any:
    *tensors, output, cells, gates = ctx.saved_tensors
    input, hidden, cell, weight, bias, projection = tensors
    sizes, reverse, c = ctx.sizes, ctx.reverse, ctx.contract
    again = torch.is_grad_enabled()  # a derivative of this one goes through the steps
    if again or not ctx.saves:
        output, _, _, cells, gates = _lstm(*tensors, sizes, reverse, True, c)  # type: ignore[call-arg]
    given = grad, grad_hidden, grad_cell, hidden, cell, weight, projection, output, cells, gates, sizes, reverse, c
    found = _lstm_backward(*given, sums=(input, bias)) if again else lstm_layer_backward(*given)
    to_input, to_hidden, to_cell, before, to_output = found
    weights = weight_gradients(ctx, 3, to_input, before, c)
    to_projection = None
    if projection is not None and ctx.needs_input_grad[5]:
        if again:  # gates are no function of anything
            gates = _ops.sigmoid(_ops.add(input, _ops.linear(before, weight, bias, c), c))
        projected = mul(gates.chunk(4, 1)[3], _ops.tanh(cells))
        to_projection = _ops.matmul(to_output, projected, True, False, c)
    return to_input, to_hidden, to_cell, *weights, to_projection, None, None, None, None


lstm_layer: Callable[..., tuple[Tensor, ...]] = composite(
    "lstm_layer",
    "(Tensor input, Tensor hidden, Tensor cell, Tensor weight, Tensor? bias, Tensor? projection, int[] batch_sizes, "
    "bool reverse, bool saves, str contract) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _lstm,
    calls=("add", "linear", "lstm_gates", "lstm_gates_backward", "matmul", "mul", "sigmoid", "sub", "sum", "tanh"),
    check=_check_lstm,
    fake=_fake_lstm,
    setup_context=_setup_lstm,
    backward=_backward_lstm,
    dtypes=Dtypes(keeps_16_bit=True),
    autocast=LOWER,
    family="recurrent",
)


# GRU


def _check_gru(
    input: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    batch_sizes: Sequence[int],
    reverse: bool,
    saves: bool,
    contract: str,
) -> None:
    size = check_layer("gru_layer", 3, input, hidden, weight, bias, batch_sizes)
    check_size("gru_layer", "hidden.shape[1]", hidden.shape[1], size, "weight.shape[0] / 3")


def _gru(
    input: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sequence[int],
    reverse: bool,
    saves: bool,
    c: str,
) -> tuple[Tensor, ...]:
    rows = blocks_of(input, sizes)
    outputs, gates = (per_step(sizes) for _ in range(2))

    def step(t: int, state: State) -> State:
        outputs[t], gates[t] = _ops.gru_gates(rows[t], _ops.linear(state[0], weight, bias, c), state[0])
        return (outputs[t],)

    (last,) = walk((hidden,), order_of(sizes, reverse), sizes, step)
    return joined(outputs), last, joined(gates) if saves else none_like(hidden, 4 * hidden.shape[1])


def _fake_gru(input: Tensor, hidden: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    rows, size = input.shape[0], hidden.shape[1]
    shapes = (rows, size), hidden.shape, (rows if rest[4] else 0, 4 * size)
    return tuple(input.new_empty(s) for s in shapes)


def _setup_gru(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.sizes, ctx.reverse, ctx.saves, ctx.contract = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, output[0], output[2])


def _backward_gru(ctx: Any, grad: Tensor, grad_hidden: Tensor, _gates: Any) -> Any:
    *tensors, output, gates = ctx.saved_tensors
    input, hidden, weight, bias = tensors
    sizes, reverse, c = ctx.sizes, ctx.reverse, ctx.contract
    if torch.is_grad_enabled() or not ctx.saves:
        output, _, gates = _gru(*tensors, sizes, reverse, True, c)  # type: ignore[call-arg]
    before = began_with(output, hidden, sizes, reverse)
    rows, grads, of_gates = (blocks_of(t, sizes) for t in (input, grad, gates))
    to_rows, to_products = (per_step(sizes) for _ in range(2))

    def step(t: int, state: State) -> State:
        whole = _ops.add(grads[t], state[0], c)
        sums = rows[t], product_of(before[t], weight, bias, c)
        to_rows[t], to_products[t], kept = gru_gradients(whole, *sums, before[t], of_gates[t])
        return (_ops.add(kept, _ops.matmul(to_products[t], weight, False, False, c), c),)

    (to_hidden,) = walk((grad_hidden,), order_of(sizes, not reverse), sizes, step)
    weights = weight_gradients(ctx, 2, joined(to_products), joined(before), c)
    return joined(to_rows), to_hidden, *weights, None, None, None, None


gru_layer: Callable[..., tuple[Tensor, ...]] = composite(
    "gru_layer",
    "(Tensor input, Tensor hidden, Tensor weight, Tensor? bias, int[] batch_sizes, bool reverse, bool saves, "
    "str contract) -> (Tensor, Tensor, Tensor)",
    _gru,
    calls=("add", "gru_gates", "gru_gates_backward", "linear", "matmul", "mul", "sigmoid", "sub", "sum", "tanh"),
    check=_check_gru,
    fake=_fake_gru,
    setup_context=_setup_gru,
    backward=_backward_gru,
    dtypes=Dtypes(keeps_16_bit=True),
    autocast=LOWER,
    family="recurrent",
)
