"""RNN, LSTM, GRU and their cells: options, packed sequences, dropout, conversion, errors."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.utils._pytree import tree_leaves, tree_map

import repdl
from repdl import nn
from repdl.errors import ArgumentError, RepDLError, ShapeError, UnsupportedError
from repdl.nn import functional as F

NAMES = ("RNN", "LSTM", "GRU")
by_name = pytest.mark.parametrize("name", NAMES)
# Some hundred roundings of values below 4, and slopes of at most 1 from step to step.
BOUND = 2.0**-16
OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 3, "bias": False},
    {"num_layers": 2, "bidirectional": True},
    {"bidirectional": True, "batch_first": True, "bias": False},
    {"num_layers": 2, "batch_first": True},
    {"nonlinearity": "relu"},
    {"proj_size": 3, "num_layers": 2, "bidirectional": True},
]
LENGTHS = [3, 6, 1, 6, 4]


def options(name: str) -> list[dict[str, Any]]:
    """Those that a class has."""
    only = {"nonlinearity": "RNN", "proj_size": "LSTM"}
    return [o for o in OPTIONS if all(only.get(key, name) == name for key in o)]


def pair(name: str, **given: Any) -> tuple[Any, Any]:
    """A layer of torch and its conversion."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(5, 7, **given)
    return repdl.from_torch_module(theirs), theirs


def states(layer: Any, batch: int | None, dtype: torch.dtype = torch.float32) -> Any:
    """Numbers for the states of a layer, a pair of an LSTM."""
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    generator = torch.Generator().manual_seed(1)
    widths = (layer.proj_size or 7, 7) if isinstance(layer, torch.nn.LSTM) else (7,)
    shape = (count,) if batch is None else (count, batch)
    made = tuple(torch.rand(*shape, w, generator=generator).sub(0.5).to(dtype) for w in widths)
    return made if len(made) == 2 else made[0]


def tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def gradients(layer: torch.nn.Module, *args: Any) -> list[torch.Tensor]:
    """Outputs and states, and the derivatives of a sum of all of them."""

    def leaf(value: Any) -> Any:
        return (
            value.detach().requires_grad_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        )

    args = tree_map(leaf, args)
    outputs = [t for t in tensors(layer(*args)) if t.is_floating_point()]
    wanted = [*(t for t in tensors(args) if t.requires_grad), *layer.parameters()]
    cotangents = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).view(t.shape).to(t.dtype) for t in outputs]
    return [*(t.detach() for t in outputs), *torch.autograd.grad(outputs, wanted, cotangents)]


def compare(ours: Any, theirs: Any, *args: Any) -> None:
    exact = copy.deepcopy(theirs).double()
    wide = tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v, args)
    for i, (a, e) in enumerate(zip(gradients(ours, *args), gradients(exact, *wide), strict=True)):
        assert a.shape == e.shape and a.dtype == torch.float32
        assert (a.double() - e).abs().max() <= BOUND * max(1.0, float(e.abs().max())), (ours, i)


def sequences() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.rand(n, 5, generator=generator) * 4 - 2 for n in LENGTHS]


@by_name
def test_recurrent__is_torchs(name: str) -> None:
    for given in options(name):
        ours, theirs = pair(name, **given)
        x = torch.nn.utils.rnn.pad_sequence(sequences(), batch_first=given.get("batch_first", False))
        one = sequences()[1]
        packed = pack_sequence(sequences(), enforce_sorted=False)
        for hx in (False, True):
            compare(ours, theirs, x, *([states(ours, 5)] if hx else []))
            compare(ours, theirs, one, *([states(ours, None)] if hx else []))
            compare(ours, theirs, packed, *([states(ours, 5)] if hx else []))


def same(a: Any, b: Any) -> None:
    for x, y in zip(tensors(a), tensors(b), strict=True):
        assert x.shape == y.shape and torch.equal(x, y)


@by_name
def test_recurrent__a_sequence_has_its_bits_however_it_comes(name: str) -> None:
    """Alone, in a batch, batch first, packed, packed without padding; each layer by its cells."""
    for given in options(name):
        given = {k: v for k, v in given.items() if k != "batch_first"}
        ours, _ = pair(name, **given)
        first = repdl.from_torch_module(getattr(torch.nn, name)(5, 7, batch_first=True, **given))
        first.load_state_dict(ours.state_dict())
        hx = states(ours, 5)
        of = lambda s: tree_map(lambda t: t[:, s], hx)
        packed, last = ours(pack_sequence(sequences(), enforce_sorted=False), hx)
        padded, lengths = pad_packed_sequence(packed)
        assert lengths.tolist() == LENGTHS
        for s, sequence in enumerate(sequences()):
            alone, end = ours(sequence, of(s))
            same(alone, padded[: LENGTHS[s], s])
            same(end, tree_map(lambda t, s=s: t[:, s], last))
        equal = torch.stack([s for s in sequences() if len(s) == 6], 1)
        both = [1, 3]
        batch = ours(equal, tree_map(lambda t: t[:, both], hx))
        same(batch[0], padded[:, both])
        same(batch[1], tree_map(lambda t: t[:, both], last))
        turned = first(equal.transpose(0, 1), tree_map(lambda t: t[:, both], hx))
        same(turned[0].transpose(0, 1), batch[0])
        rows = pack_padded_sequence(equal, [6, 6])
        same(ours(rows, tree_map(lambda t: t[:, both], hx))[0].data, batch[0].flatten(0, 1))
        if ours.proj_size == 0:
            same(by_cells(ours, sequences()[1], of(1)), padded[:, 1])


def by_cells(layer: Any, x: torch.Tensor, hx: Any) -> torch.Tensor:
    """The outputs of a layer for one sequence, step by step."""
    pairs, number = isinstance(hx, tuple), 0
    for depth in range(layer.num_layers):
        outputs = []
        for suffix in ("", "_reverse") if layer.bidirectional else ("",):
            kind = {"nonlinearity": layer.nonlinearity} if isinstance(layer, nn.RNN) else {}
            cell = getattr(nn, f"{type(layer).__name__}Cell")(x.shape[1], 7, bias=layer.bias, **kind)
            named = {n: getattr(layer, f"{n}_l{depth}{suffix}") for n, _ in cell.named_parameters()}
            cell.load_state_dict(named)
            state = tuple(h[number] for h in hx) if pairs else hx[number]
            made = []
            for step in x.flip(0) if suffix else x:
                state = cell(step, state)
                made.append(state[0] if pairs else state)
            outputs.append(torch.stack(made[::-1] if suffix else made))
            number += 1
        x = torch.cat(outputs, 1)
    return x


@by_name
def test_recurrent__threads_and_backends(name: str) -> None:
    ours, _ = pair(name, num_layers=2, bidirectional=True)
    x, before = sequences()[1].unsqueeze(1).repeat(1, 40, 1), repdl.get_num_threads()
    results = []
    for threads in (1, 3):
        repdl.set_num_threads(threads)
        results.append(gradients(ours, x))
    repdl.set_num_threads(before)
    with repdl.use_backend("reference"):
        results.append(gradients(ours, x))
    same(results[0], results[1])
    same(results[0], results[2])


@by_name
def test_recurrent__dropout_between_layers(name: str) -> None:
    """The one of functional: its generator, its position, none in eval mode, none after the last layer."""
    generator = repdl.random.Generator(3)
    layer = getattr(nn, name)(5, 7, num_layers=2, dropout=0.5, generator=generator)
    parts = [getattr(nn, name)(n, 7) for n in (5, 7)]
    for depth, part in enumerate(parts):
        part.load_state_dict({n: layer.state_dict()[n.replace("l0", f"l{depth}")] for n in part.state_dict()})
    x = torch.stack([s for s in sequences() if len(s) == 6], 1)
    before = generator.get_state()
    output, last = layer(x)
    again = repdl.random.Generator(3)
    again.set_state(before)
    middle, first = parts[0](x)
    expected, second = parts[1](F.dropout(middle, 0.5, generator=again))
    same(output, expected)
    same(last, tree_map(lambda a, b: torch.cat((a, b)), first, second))
    generator.set_state(before)
    layer.batch_first = True
    same(layer(x.transpose(0, 1))[0].transpose(0, 1), output)  # what is dropped follows step and sequence
    layer.batch_first = False
    generator.set_state(before)
    same(layer(pack_padded_sequence(x, [6, 6]))[0].data, output.flatten(0, 1))
    state = generator.get_state()
    layer.eval()
    same(layer(x)[0], parts[1](middle)[0])
    assert torch.equal(generator.get_state(), state)


@by_name
def test_recurrent__copies_and_state_dicts(name: str) -> None:
    ours, theirs = pair(name, num_layers=2, bidirectional=True)
    x = sequences()[1]
    expected = ours(x)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    fresh = getattr(nn, name)(5, 7, num_layers=2, bidirectional=True)
    fresh.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(fresh.state_dict())
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for other in (fresh, copy.deepcopy(ours), torch.load(file, weights_only=False), repdl.from_torch_module(theirs)):
        other.flatten_parameters()
        same(other(x), expected)
        with torch.no_grad():
            other.weight_hh_l1_reverse.zero_()
        assert not torch.equal(other(x)[0], expected[0])  # it has weights of its own
    same(ours(x), expected)
    replaced = {n: torch.zeros_like(p) for n, p in ours.named_parameters()}
    assert not torch.func.functional_call(ours, replaced, (x,))[0].any()
    assert repr(ours) == repr(theirs)


@by_name
def test_recurrent__initial_values_are_drawn(name: str) -> None:
    for kind in (name, f"{name}Cell"):
        made = [getattr(nn, kind)(5, 7, generator=repdl.random.Generator(4)) for _ in range(2)]
        same(made[0].state_dict(), made[1].state_dict())
        drawn = torch.cat([p.flatten() for p in made[0].parameters()])
        assert drawn.abs().max() <= 7**-0.5 and drawn.max() > 0.8 * 7**-0.5
        torch.manual_seed(0)
        ours = getattr(nn, kind)(5, 7)
        torch.manual_seed(0)
        same(ours.state_dict(), getattr(torch.nn, kind)(5, 7).state_dict())


@by_name
def test_recurrent__halves_and_autocast(name: str) -> None:
    """Each op rounds, so that a layer of halves is that of its cells."""
    ours, _ = pair(name)
    half, x = copy.deepcopy(ours).bfloat16(), sequences()[1]
    output, last = half(x.bfloat16())
    assert all(t.dtype == torch.bfloat16 for t in tensors((output, last)))
    hx = tree_map(lambda t: t.bfloat16(), states(ours, None))
    cell = getattr(nn, f"{name}Cell")(5, 7).bfloat16()
    cell.load_state_dict({n: getattr(half, f"{n}_l0") for n, _ in cell.named_parameters()})
    state = tree_map(lambda t: t[0], hx)
    for step, row in zip(x.bfloat16(), half(x.bfloat16(), hx)[0]):
        state = cell(step, state)
        same(tensors(state)[0], row)
    with torch.autocast("cpu", torch.bfloat16):
        same(ours(x), (output, last))


@by_name
def test_recurrent__compiled(name: str) -> None:
    """Layers as torch's are compiled: not at all, unless Dynamo is told to; cells at once."""
    ours, _ = pair(name)
    x = sequences()[1]
    expected = gradients(ours, x)
    torch._dynamo.reset()
    same(gradients(torch.compile(ours, backend="aot_eager"), x), expected)
    with torch._dynamo.config.patch(allow_rnn=True):
        torch._dynamo.reset()
        same(gradients(torch.compile(ours, backend="aot_eager", fullgraph=True), x), expected)
    cell = getattr(nn, f"{name}Cell")(5, 7)
    same(gradients(torch.compile(cell, backend="aot_eager", fullgraph=True), x), gradients(cell, x))
    torch._dynamo.reset()


@by_name
def test_recurrent__without_sequences(name: str) -> None:
    ours, theirs = pair(name, num_layers=2, bidirectional=True)
    for a, b in zip(tensors(ours(torch.empty(4, 0, 5))), tensors(theirs(torch.empty(4, 0, 5))), strict=True):
        assert a.shape == b.shape


@by_name
def test_recurrent__errors(name: str) -> None:
    layer, x = getattr(nn, name)(5, 7, num_layers=2), torch.zeros(6, 3, 5)
    pair_ = name == "LSTM"

    def hx(*shape: int) -> Any:
        return (torch.zeros(2, 3, 7), torch.zeros(shape)) if pair_ else torch.zeros(shape)

    for args, error, message in (
        ((torch.zeros(6, 3, 4),), RuntimeError, "Expected 5, got 4"),
        ((x.double(),), ValueError, "does not match weight dtype"),
        ((torch.zeros(6),), ShapeError, r"input.dim\(\) is 1, expected 3"),
        ((torch.zeros(0, 3, 5),), ShapeError, "sequence length is 0"),
        ((x, hx(2, 4, 7)), ShapeError, r"shape is \(2, 4, 7\), expected \(2, 3, 7\)"),
        ((x, hx(1, 3, 7)), ShapeError, r"shape is \(1, 3, 7\), expected \(2, 3, 7\)"),
        ((x, hx(2, 7)), ShapeError, r"shape is \(2, 7\)"),
        ((x[:, 0], hx(2, 3, 7)), ShapeError, r"expected \(2, 7\)"),
        ((pack_padded_sequence(x, [6, 5, 2]), hx(2, 4, 7)), ShapeError, r"expected \(2, 3, 7\)"),
    ):
        with pytest.raises(error, match=message):
            layer(*args)
    if pair_:
        with pytest.raises(ArgumentError, match="expected a pair"):
            layer(x, torch.zeros(2, 3, 7))
    with pytest.raises(ValueError, match="dropout should be a number"):
        getattr(nn, name)(5, 7, dropout=1.5)
    with pytest.raises(ValueError, match="proj_size"):
        getattr(nn, name)(5, 7, proj_size=7)
    cell = getattr(nn, f"{name}Cell")(5, 7)
    with pytest.raises(ShapeError, match=r"input.dim\(\) is 3"):
        cell(x)
    with pytest.raises(ShapeError, match=r"hx.*expected \(3, 7\)"):
        cell(x[0], (torch.zeros(3, 7), torch.zeros(2, 7)) if pair_ else torch.zeros(2, 7))
    assert issubclass(ShapeError, (RepDLError, ValueError)) and issubclass(UnsupportedError, RepDLError)


def test_recurrent__unknown_nonlinearity() -> None:
    with pytest.raises(ValueError, match="Unknown nonlinearity"):
        nn.RNN(5, 7, nonlinearity="sin")
    with pytest.raises(RuntimeError, match="nonlinearity is 'sin'"):
        nn.RNNCell(5, 7, nonlinearity="sin")(torch.zeros(5))


class Tagger(torch.nn.Module):
    """A user's module around a layer."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(11, 6)
        self.layer = getattr(torch.nn, name)(6, 8, num_layers=2, dropout=0.2, bidirectional=True)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, tokens: Sequence[torch.Tensor]) -> torch.Tensor:
        rows = self.table(torch.cat(list(tokens))).split([len(t) for t in tokens])
        packed, _ = self.layer(pack_sequence(list(rows)))
        assert isinstance(packed, PackedSequence)
        return self.head(packed.data)


@by_name
def test_recurrent__a_model_trains_to_the_same_bits(name: str) -> None:
    digests = set()
    tokens = [torch.arange(n) * 3 % 11 for n in sorted(LENGTHS, reverse=True)]
    target = torch.arange(sum(LENGTHS)) % 4
    for threads in (1, 3):
        with repdl.random.fork_rng():
            repdl.random.manual_seed(3)
            torch.manual_seed(0)
            model, before = repdl.from_torch_module(Tagger(name)), repdl.get_num_threads()
            repdl.set_num_threads(threads)
            optimizer = repdl.optim.SGD(model.parameters(), lr=0.5)
            losses = []
            for _ in range(8):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(tokens), target)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            repdl.set_num_threads(before)
            digests.add(repdl.digest(model))
            assert losses[-1] < losses[0]
    assert len(digests) == 1
