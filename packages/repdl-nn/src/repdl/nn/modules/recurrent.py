"""RNN, LSTM, GRU and their cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from repdl import ops
from repdl.contract import contract_name
from repdl.dtypes import rounding
from repdl.errors import ArgumentError, ShapeError
from repdl.nn import functional as F, init
from repdl.nn.modules.layer import Layer
from repdl.nn.packing import moved_rows, stable_positions
from repdl.ops.rnn.recurrent import gru_layer, lstm_layer, rnn_layer

Tensor = torch.Tensor
States = tuple[Tensor, ...]


class _Uniform(Layer):
    """A layer whose parameters all are uniform, within 1 / sqrt(hidden_size)."""

    def reset_parameters(self) -> None:
        """Draw all parameters (see `Layer`)."""
        generator = self._draws()
        if generator is None:
            super().reset_parameters()  # type: ignore[misc]
            return
        bound = rounding.div(1.0, rounding.sqrt(float(self.hidden_size)))  # type: ignore[arg-type]
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, generator=generator)


class _Recurrent(_Uniform):
    """Layers of steps; a class says what one direction of a layer computes."""

    hidden_size: int

    def _steps(
        self,
        gates: Tensor,
        state: States,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        sizes: Sequence[int],
        reverse: bool,
    ) -> States:
        """Outputs of all rows, and the states at the ends of the sequences."""
        raise NotImplementedError

    def _run(self, input: Any, given: States | None, widths: Sequence[int]) -> tuple[Any, States]:
        """Output and last states, in the form of the input; `widths` are the sizes of the states."""
        self._update_flat_weights()  # type: ignore[operator]
        name = type(self).__name__
        if isinstance(input, PackedSequence):
            self.check_input(input.data, input.batch_sizes)  # type: ignore[operator]
            sizes, batched = input.batch_sizes.tolist(), True
            rows, order, back, restore = self._stable(input, sizes)
        else:
            if input.dim() not in (2, 3):
                raise ShapeError(f"{name}: input.dim() is {input.dim()}, expected 3, or 2 without a batch")
            order = back = None
            batched = input.dim() == 3
            batch = input if batched else input.unsqueeze(0 if self.batch_first else 1)
            self.check_input(batch, None)  # type: ignore[operator]
            steps = batch.transpose(0, 1) if self.batch_first else batch
            if steps.shape[0] == 0:
                raise ShapeError(f"{name}: the sequence length is 0, expected at least 1")
            sizes, rows = [steps.shape[1]] * steps.shape[0], steps.reshape(-1, steps.shape[-1])
        states = self._initial(name, given, widths, sizes[0], batched, rows, order)
        rows, last = self._layers(rows, states, sizes)
        if back is not None:
            last = tuple(ops.index_select(s, 1, back, contract=self.contract) for s in last)
        if isinstance(input, PackedSequence):
            return input._replace(data=restore(rows)), last
        output = rows.reshape(len(sizes), sizes[0], rows.shape[-1])
        if not batched:
            return output.squeeze(1), tuple(s.squeeze(1) for s in last)
        return output.transpose(0, 1) if self.batch_first else output, last

    def _stable(
        self, input: PackedSequence, sizes: list[int]
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Callable[[Tensor], Tensor]]:
        """Rows and both orders as a stable sort gives them, and what brings rows back as they were.

        Sums over rows, and dropout, have the order of rows, which torch's sort does not fix for equal lengths.
        """
        rows, _, order, back = input
        positions = None if order is None else stable_positions(sizes, order.tolist())
        if order is None or positions is None:
            return rows, order, back, lambda rows: rows
        moved = torch.tensor(moved_rows(sizes, positions), device=rows.device)
        inverse = moved.argsort()
        order = order[torch.tensor(positions, device=order.device)]
        rows = ops.index_select(rows, 0, moved, contract=self.contract)
        return rows, order, order.argsort(), lambda rows: ops.index_select(rows, 0, inverse, contract=self.contract)

    def _initial(
        self,
        name: str,
        given: States | None,
        widths: Sequence[int],
        batch: int,
        batched: bool,
        like: Tensor,
        order: Tensor | None,
    ) -> list[States]:
        """The states that each layer and direction begins with, in the order of the rows."""
        count = self.num_layers * (2 if self.bidirectional else 1)  # type: ignore[operator]
        if given is None:
            zeros = tuple(like.new_zeros((batch, width)) for width in widths)
            return [zeros] * count  # type: ignore[operator]
        for number, (state, width) in enumerate(zip(given, widths)):
            what = "hx" if len(widths) == 1 else f"hx[{number}]"
            if not isinstance(state, Tensor):
                raise ArgumentError(f"{name}: {what} is {type(state).__name__}, expected a tensor")
            expected = (count, batch, width) if batched else (count, width)
            if state.shape != expected:
                raise ShapeError(
                    f"{name}: {what}.shape is {tuple(state.shape)}, expected {expected} (layers and directions, "
                    f"{'batch, ' if batched else ''}size)"
                )
        if order is not None:
            given = tuple(ops.index_select(s, 1, order, contract=self.contract) for s in given)
        return list(zip(*((s if batched else s.unsqueeze(1)).unbind(0) for s in given)))

    def _layers(self, rows: Tensor, states: list[States], sizes: Sequence[int]) -> tuple[Tensor, States]:
        """Outputs of the last layer, and the last states of all."""
        last: list[States] = []
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        for layer in range(self.num_layers):  # type: ignore[arg-type]
            if layer > 0 and self.training and self.dropout:
                rows = F.dropout(rows, self.dropout, True, generator=self.generator, contract=self.contract)  # type: ignore[arg-type]
            found = [self._weights(f"l{layer}{suffix}") for suffix in suffixes]
            # One product for both directions: the gradient of the rows is then one sum.
            weight = torch.cat([of["weight_ih"] for of in found]) if len(found) > 1 else found[0]["weight_ih"]
            bias = found[0]["bias_ih"]
            if bias is not None and len(found) > 1:
                bias = torch.cat([of["bias_ih"] for of in found])
            gates = F.linear(rows, weight, bias, contract=self.contract).chunk(len(found), 1)
            outputs = []
            for reverse, (of, part) in enumerate(zip(found, gates)):
                state = states[len(last)]
                output, *after = self._steps(
                    part, state, of["weight_hh"], of["bias_hh"], of["weight_hr"], sizes, bool(reverse)
                )
                outputs.append(output)
                last.append(tuple(after))
            rows = torch.cat(outputs, 1) if len(outputs) > 1 else outputs[0]
        return rows, tuple(torch.stack(parts) for parts in zip(*last))

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Outputs of the last layer, and the last hidden states of all, from hidden states or from zeros."""
        output, (hidden,) = self._run(input, None if hx is None else (hx,), (self.hidden_size,))
        return output, hidden

    def _weights(self, suffix: str) -> dict[str, Any]:
        names = "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"
        return {name: getattr(self, f"{name}_{suffix}", None) for name in names}


def _saves(*tensors: Tensor | None) -> bool:
    """Whether a layer is asked for what its derivative needs."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


class RNN(_Recurrent, torch.nn.RNN):  # type: ignore[misc]
    """Layers of `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`: `(L, N, I)` to `(L, N, D * H)` and `(D * layers, N, H)`.

    Arguments and initialisation are those of `torch.nn.RNN`, and keywords `contract` and `generator`, which dropout
    between layers draws from too. Any floating-point dtype. The input may be without a batch, or a `PackedSequence`:
    outputs of a sequence have the same bits packed, padded, alone, or step by step.

    Raises:
        ShapeError, RuntimeError, ValueError: if sizes do not fit together, or a sequence has no step.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: recurrent v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNN.html
    """

    def _steps(
        self,
        gates: Tensor,
        state: States,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        sizes: Sequence[int],
        reverse: bool,
    ) -> States:
        return rnn_layer(gates, *state, weight, bias, sizes, reverse, self.nonlinearity, contract_name(self.contract))


class GRU(_Recurrent, torch.nn.GRU):  # type: ignore[misc]
    """Layers of gated recurrent units: `(L, N, I)` to `(L, N, D * H)` and `(D * layers, N, H)`.

    Any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.GRU`, and keywords `contract` and `generator`, which dropout
    between layers draws from too. The input may be without a batch, or a `PackedSequence`: outputs of a sequence have
    the same bits packed, padded, alone, or step by step.

    Raises:
        ShapeError, RuntimeError, ValueError: if sizes do not fit together, or a sequence has no step.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: recurrent v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html
    """

    def _steps(
        self,
        gates: Tensor,
        state: States,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        sizes: Sequence[int],
        reverse: bool,
    ) -> States:
        tensors = gates, *state, weight, bias
        output, hidden, _ = gru_layer(*tensors, sizes, reverse, _saves(*tensors), contract_name(self.contract))
        return output, hidden


class LSTM(_Recurrent, torch.nn.LSTM):
    """Layers of long short-term memory: `(L, N, I)` to `(L, N, D * H)`, `(D * layers, N, H)` and the cells likewise.

    Arguments and initialisation are those of `torch.nn.LSTM`, and keywords `contract` and `generator`, which dropout
    between layers draws from too. Any floating-point dtype. The input may be without a batch, or a `PackedSequence`:
    outputs of a sequence have the same bits packed, padded, alone, or step by step.

    Raises:
        ShapeError, RuntimeError, ValueError: if sizes do not fit together, or a sequence has no step.
        ArgumentError: if `hx` is not a pair of tensors.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: recurrent v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    """

    def _steps(
        self,
        gates: Tensor,
        state: States,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        sizes: Sequence[int],
        reverse: bool,
    ) -> States:
        tensors = gates, *state, weight, bias, projection
        return lstm_layer(*tensors, sizes, reverse, _saves(*tensors), contract_name(self.contract))[:3]

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:  # type: ignore[override]
        """Outputs of the last layer, and the last hidden states and cells of all, from those given or from zeros."""
        if hx is not None and (not isinstance(hx, (list, tuple)) or len(hx) != 2):
            raise ArgumentError(f"LSTM: hx is {type(hx).__name__}, expected a pair of tensors (hidden states, cells)")
        output, (hidden, cell) = self._run(input, hx, (self.proj_size or self.hidden_size, self.hidden_size))
        return output, (hidden, cell)


class _Cell(_Uniform):
    """One step. What is wrong with the sizes, the functions say."""

    def _arguments(self, input: Tensor, *given: Tensor | None) -> list[Any]:
        """Input and states, zeros where none are given, and parameters."""
        if input.dim() not in (1, 2):
            raise ShapeError(f"{type(self).__name__}: input.dim() is {input.dim()}, expected 2, or 1 without a batch")
        shape = (*input.shape[:-1], self.hidden_size)
        states = [input.new_zeros(shape) if state is None else state for state in given]  # type: ignore[arg-type]
        return [input, *states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]


class RNNCell(_Cell, torch.nn.RNNCell):
    """One step of an RNN: `(N, I), (N, H) -> (N, H)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.RNNCell`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if sizes do not fit together; RuntimeError for another `nonlinearity`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: cell v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNCell.html
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The hidden state after `input`, from a hidden state or from zeros."""
        functions = {"tanh": ops.rnn_tanh_cell, "relu": ops.rnn_relu_cell}
        if self.nonlinearity not in functions:
            raise RuntimeError(f"RNNCell: nonlinearity is {self.nonlinearity!r}, expected 'tanh' or 'relu'")
        return functions[self.nonlinearity](*self._arguments(input, hx), contract=self.contract)


class GRUCell(_Cell, torch.nn.GRUCell):
    """One step of a GRU: `(N, I), (N, H) -> (N, H)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.GRUCell`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if sizes do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: cell v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRUCell.html
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The hidden state after `input`, from a hidden state or from zeros."""
        return ops.gru_cell(*self._arguments(input, hx), contract=self.contract)


class LSTMCell(_Cell, torch.nn.LSTMCell):
    """One step of an LSTM: `(N, I), ((N, H), (N, H)) -> (N, H), (N, H)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.LSTMCell`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if sizes do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: cell v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html
    """

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Hidden state and cell after `input`, from those given or from zeros."""
        input, hidden, cell, *parameters = self._arguments(input, *((None, None) if hx is None else hx))
        return ops.lstm_cell(input, (hidden, cell), *parameters, contract=self.contract)


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]
