"""MultiheadAttention and the Transformer's layers: conversion, masks, initial values, threads, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import ShapeError, UnsupportedError

# A few hundred roundings of values below 8.
BOUND = 2.0**-14


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a.double() - b.double()).abs().max() <= BOUND)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_first": True},
        {"bias": False},
        {"kdim": 6, "vdim": 10},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"add_zero_attn": True, "batch_first": True},
    ],
)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_multihead_attention__is_torchs(options: dict[str, Any], masked: bool) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, **options)
    ours = repdl.from_torch_module(theirs)
    first = options.get("batch_first", False)
    sizes = 8, options.get("kdim", 8), options.get("vdim", 8)
    tensors = [torch.randn((3, n, e) if first else (n, 3, e)) for n, e in zip((5, 7, 7), sizes)]
    masks: dict[str, Any] = {}
    if masked:
        padding = torch.zeros(3, 7, dtype=torch.bool)
        padding[1, 4:] = True
        masks = {"key_padding_mask": padding, "attn_mask": torch.randn(5, 7)}
    for weights in (True, False):
        for average in (True, False):
            mine = ours(*tensors, need_weights=weights, average_attn_weights=average, **masks)
            their = theirs(*tensors, need_weights=weights, average_attn_weights=average, **masks)
            assert same(mine[0], their[0])
            assert mine[1] is their[1] is None or same(mine[1], their[1])


def test_multihead_attention__one_tensor_is_projected_at_once() -> None:
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(3, 5, 8)
    once, apart = layer(x, x, x)[0], layer(x, x.clone(), x.clone())[0]
    assert torch.equal(once, apart)  # gradients differ: they are sums of three


def test_multihead_attention__need_weights() -> None:
    """One order in a converted layer; torch's, while enabled, has two, of which one is that, as the docs say."""
    torch.manual_seed(0)
    mask = torch.randn(5, 5)
    for heads, one in ((8, False), (4, True)):  # of 8 numbers and 16, by whose root a product divides exactly
        theirs, x = torch.nn.MultiheadAttention(64, heads, batch_first=True).eval(), torch.randn(3, 5, 64)
        ours = repdl.from_torch_module(theirs)
        for masks in ({}, {"attn_mask": mask}):
            apart, whole = (ours(x, x, x, need_weights=w, **masks)[0] for w in (True, False))
            assert torch.equal(apart, whole)
            with repdl.enabled():
                apart, found = (theirs(x, x, x, need_weights=w, **masks)[0] for w in (True, False))
            assert torch.equal(found, whole)
            assert torch.equal(apart, whole) is one and same(apart, whole)


def test_multihead_attention__unbatched_and_bool_masks() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2)
    ours = repdl.from_torch_module(theirs)
    x, mask = torch.randn(5, 8), torch.ones(5, 5, dtype=torch.bool).triu(1)
    padding = torch.tensor([False, False, False, True, True])
    for masks in ({"attn_mask": mask}, {"attn_mask": mask, "is_causal": True}, {"key_padding_mask": padding}):
        mine, their = ours(x, x, x, **masks), theirs(x, x, x, **masks)
        assert same(mine[0], their[0])
        assert same(mine[1], their[1])
    both = ours(x, x, x, attn_mask=mask, key_padding_mask=padding)
    assert same(both[0], theirs(x, x, x, attn_mask=mask, key_padding_mask=padding)[0])


def test_multihead_attention__bad_arguments() -> None:
    layer, x = nn.MultiheadAttention(8, 2), torch.zeros(5, 3, 8)
    with pytest.raises(UnsupportedError, match="is_causal"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(ShapeError, match="attn_mask.shape"):
        layer(x, x, x, attn_mask=torch.zeros(5, 4))
    with pytest.raises(ShapeError, match="key_padding_mask.shape"):
        layer(x, x, x, key_padding_mask=torch.zeros(5, 3))
    with pytest.raises(ShapeError):
        layer(x, x[:, :2], x[:, :2])
    with pytest.raises(ShapeError):
        layer(x, x, x[0])


def build(name: str, **options: Any) -> torch.nn.Module:
    if name in ("TransformerEncoder", "TransformerDecoder"):
        part = getattr(torch.nn, f"{name}Layer")(8, 2, 16, **options)
        return getattr(torch.nn, name)(part, 2, norm=torch.nn.LayerNorm(8))
    if name == "Transformer":
        return torch.nn.Transformer(8, 2, 1, 1, 16, **options)
    return getattr(torch.nn, name)(8, 2, 16, **options)


NAMES = "TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder", "TransformerDecoder", "Transformer"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options", [{"dropout": 0.0}, {"dropout": 0.0, "norm_first": True, "activation": "gelu", "batch_first": True}]
)
def test_transformer__is_torchs(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    theirs = build(name, **options)
    ours = repdl.from_torch_module(theirs)
    assert all(isinstance(m, (nn.Layer, torch.nn.ModuleList)) for m in ours.modules())
    x, memory = torch.randn(6, 6, 8), torch.randn(6, 6, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
    inputs = (x,) if "Encoder" in name else (x, memory)
    masks = {"src_mask" if name == "TransformerEncoderLayer" else "mask" if "Encoder" in name else "tgt_mask": mask}
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        assert same(ours(*inputs), theirs(*inputs))
        assert same(ours(*inputs, **masks), theirs(*inputs, **masks))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", NAMES)
def test_transformer__trains_to_the_same_bits(name: str) -> None:
    digests = set()
    for threads in (1, 3):
        with repdl.random.fork_rng():
            repdl.random.manual_seed(3)
            torch.manual_seed(0)
            model = repdl.from_torch_module(build(name, dropout=0.1))
            x, before = torch.randn(5, 4, 8), repdl.get_num_threads()
            repdl.set_num_threads(threads)
            optimizer = repdl.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                output = model(x) if "Encoder" in name else model(x, x)
                nn.functional.mse_loss(output, x).backward()
                optimizer.step()
            repdl.set_num_threads(before)
            digests.add(repdl.digest(model))
    assert len(digests) == 1


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer__made_directly() -> None:
    generator = repdl.random.Generator(5)
    layer = nn.TransformerEncoderLayer(8, 2, 16, contract="sequential", generator=generator)
    assert all(isinstance(m, nn.Layer) and m.contract == "sequential" for m in layer.modules())
    again = nn.TransformerEncoderLayer(8, 2, 16, generator=repdl.random.Generator(5))
    assert all(torch.equal(a, b) for a, b in zip(layer.state_dict().values(), again.state_dict().values()))
    torch.manual_seed(0)
    ours = nn.Transformer(8, 2, 1, 1, 16)
    torch.manual_seed(0)
    theirs = torch.nn.Transformer(8, 2, 1, 1, 16)
    assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()))
    with pytest.raises(UnsupportedError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, 16, activation=torch.tanh)(torch.zeros(2, 2, 8))


def test_transformer__a_call_changes_no_attribute():
    """torch's function stays the activation, which copies and pickles as torch's layer."""
    layer = repdl.from_torch_module(torch.nn.TransformerEncoderLayer(4, 2, 8, activation="gelu").eval())
    before = dict(vars(layer))
    assert layer.activation is torch.nn.functional.gelu
    layer(torch.ones(3, 2, 4))
    assert vars(layer) == before and layer.activation is torch.nn.functional.gelu


def test_multi_head_attention_forward__is_the_layer(uniform):
    """Of a layer's parameters, given one by one; against torch's function, too."""
    options = {"kdim": 5, "vdim": 3, "add_bias_kv": True, "add_zero_attn": True}
    for kwargs in ({}, {"bias": False}, options):
        layer = nn.MultiheadAttention(8, 2, **kwargs, generator=repdl.random.Generator(0)).eval()
        query, key, value = uniform(4, 3, 8), uniform(6, 3, layer.kdim), uniform(6, 3, layer.vdim)
        separate = not layer._qkv_same_embed_dim
        parameters = layer.in_proj_weight, layer.in_proj_bias, layer.bias_k, layer.bias_v, layer.add_zero_attn
        named = {f"{x}_proj_weight": getattr(layer, f"{x}_proj_weight") for x in "qkv"} if separate else {}
        mask = torch.arange(24).view(4, 6) % 5 == 4
        named.update(use_separate_proj_weight=separate, attn_mask=mask, training=False)
        args = query, key, value, 8, 2, *parameters, 0.5, layer.out_proj.weight, layer.out_proj.bias
        ours = nn.functional.multi_head_attention_forward(*args, **named)
        theirs = torch.nn.functional.multi_head_attention_forward(*args, **named)
        for a, b, c in zip(ours, layer(query, key, value, attn_mask=mask), theirs):
            assert torch.equal(a, b) and torch.allclose(a, c, atol=1e-6)
        gradients = [torch.autograd.grad(y[0].sum(), layer.out_proj.weight)[0] for y in (ours, theirs)]
        assert torch.allclose(*gradients, atol=1e-5)
    with pytest.raises(UnsupportedError, match="static_k"):
        nn.functional.multi_head_attention_forward(*args, **named, static_k=key)
    with pytest.raises(ValueError, match="embed_dim_to_check"):
        nn.functional.multi_head_attention_forward(*args[:3], 9, *args[4:], **named)
