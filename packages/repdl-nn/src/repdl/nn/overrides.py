"""What computes torch's ops of layers while `repdl.enable()` holds: recurrent ones, and norms of weights."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from repdl.contract import contract_name
from repdl.nn.modules.recurrent import GRU, LSTM, RNN
from repdl.nn.utils.weight_norm import normed
from repdl.overrides.draws import torch_generator
from repdl.registry.aten import Function, computes

Tensor = torch.Tensor
Layer = torch.nn.RNNBase
_NAMES = "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"


def _weights(given: Mapping[str, Tensor], suffix: str) -> dict[str, Tensor | None]:
    return {name: given.get(f"{name}_{suffix}") for name in _NAMES}


@functools.lru_cache(maxsize=64)
def _layer(
    make: Callable[..., Layer], sizes: tuple[int, ...], dtype: torch.dtype, options: tuple[tuple[str, Any], ...]
) -> Layer:
    """A layer of RepDL without memory, for its checks and its loops."""
    layer = make(*sizes[:2], **dict(options), device="meta", dtype=dtype)
    layer._update_flat_weights = lambda: None  # type: ignore[method-assign]
    return layer


def _run(
    make: Callable[..., Layer],
    gates: int,
    input: Any,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, Any]:
    rows, hidden = params[1].shape[0] // gates, params[1].shape[1]
    options: dict[str, Any] = {
        "num_layers": num_layers,
        "bias": has_biases,
        "batch_first": batch_first,
        "dropout": dropout if num_layers > 1 else 0.0,
        "bidirectional": bidirectional,
    }
    names = [*_NAMES[:2], *(_NAMES[2:4] if has_biases else ())]
    if hidden != rows:
        options["proj_size"] = hidden
        names.append(_NAMES[4])
    layer = copy(_layer(make, (params[0].shape[1], rows), params[0].dtype, tuple(options.items())))
    directions = ("", "_reverse") if bidirectional else ("",)
    places = itertools.product(range(num_layers), directions, names)
    given = {f"{name}_l{number}{direction}": tensor for (number, direction, name), tensor in zip(places, params)}
    layer.__dict__["_weights"] = functools.partial(_weights, given)
    layer.training = train
    layer.__dict__["generator"] = torch_generator(None)
    return layer(input, hx)


def _op(make: Callable[..., Layer], gates: int, states: int) -> Function:
    def call(
        input: Tensor | None = None,
        hx: Any = None,
        params: Sequence[Tensor] = (),
        has_biases: bool = True,
        num_layers: int = 1,
        dropout: float = 0.0,
        train: bool = False,
        bidirectional: bool = False,
        batch_first: bool = False,
        data: Tensor | None = None,
        batch_sizes: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        given = input if data is None else PackedSequence(data, batch_sizes)
        options = has_biases, num_layers, dropout, train, bidirectional, batch_first
        output, last = _run(make, gates, given, tuple(hx) if states == 2 else hx, params, *options)
        output = output if data is None else output.data
        return (output, *last) if states == 2 else (output, last)

    return call


@computes("_weight_norm")
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    return normed(v, g, dim, contract_name(None))


computes("lstm")(_op(LSTM, 4, 2))
computes("gru")(_op(GRU, 3, 1))
computes("rnn_tanh")(_op(functools.partial(RNN, nonlinearity="tanh"), 1, 1))
computes("rnn_relu")(_op(functools.partial(RNN, nonlinearity="relu"), 1, 1))
