"""The contract that a layer or a utility is given reaches every op of it, whatever the contract of the process."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_nn_samples import INFOS, samples, tensors

import repdl
from repdl import nn
from repdl.testing import uniform
from repdl.testing.contracts import ContractsTaken

PROCESS, GIVEN = "dot_chunk=7,sum_lanes=2,sum_block=8", "sequential"


def checked(build: Callable[[], Any], call: Callable[[Any], Any]) -> int:
    """How many ops `call(build())` and its derivative were; each took the contract that was given."""
    with repdl.use_contract(PROCESS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = build()
        with ContractsTaken() as mode:
            outputs = [t for t in tensors(call(built)) if t.requires_grad and t.grad_fn is not None]
            if outputs:
                torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    assert not mode.others(GIVEN), mode.others(GIVEN)
    return len(mode.taken)


OTHERS_IN_EVALUATION = {name for name in INFOS if "Norm" in name or "Transformer" in name}
"""Layers that call other ops than in training."""


@pytest.mark.parametrize(
    ("name", "training"),
    [(name, True) for name in sorted(INFOS)]
    + [
        pytest.param(name, False, marks=() if name in OTHERS_IN_EVALUATION else pytest.mark.nightly)
        for name in sorted(INFOS)
    ],
)
def test_explicit_contract__of_layers(name: str, training: bool) -> None:
    for (args, kwargs), (inputs, named) in samples(name, training):
        checked(
            lambda: getattr(nn, name)(*args, **kwargs, contract=GIVEN).train(training),
            lambda layer: layer(*inputs, **named),
        )


def layer(kind: str = "Linear", *sizes: int) -> torch.nn.Module:
    made = getattr(nn, kind)(*(sizes or (5, 4)), contract=GIVEN)
    for parameter in made.parameters():
        parameter.data = uniform(parameter.numel(), *parameter.shape)
    return made


def gradients() -> list[torch.nn.Parameter]:
    made = [torch.nn.Parameter(uniform(i, 9, 3)) for i in range(3)]
    for i, parameter in enumerate(made):
        parameter.grad = uniform(i + 7, 9, 3)
    return made


def bn(kind: str, sizes: int) -> torch.nn.Module:
    return layer(kind, sizes).eval()


x = uniform(1, 6, 5).requires_grad_()
image = uniform(2, 2, 3, 5, 5).requires_grad_()
utils, maps = nn.utils, nn.utils.parametrizations
CALLS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "utils.clip_grad_norm_": (gradients, lambda p: utils.clip_grad_norm_(p, 0.5, contract=GIVEN)),
    "utils.clip_grad_norm": (gradients, lambda p: utils.clip_grad_norm(p, 0.5, contract=GIVEN)),
    "utils.clip_grad_value_": (gradients, lambda p: utils.clip_grad_value_(p, 0.5, contract=GIVEN)),
    "utils.clip_grads_with_norm_": (
        gradients, lambda p: utils.clip_grads_with_norm_(p, 0.5, torch.tensor(2.0), contract=GIVEN)
    ),
    "utils.get_total_norm": (gradients, lambda p: utils.get_total_norm([q.grad for q in p], contract=GIVEN)),
    "utils.weight_norm": (lambda: utils.weight_norm(layer(), contract=GIVEN), lambda m: m(x)),
    "utils.spectral_norm": (lambda: utils.spectral_norm(layer(), contract=GIVEN), lambda m: m(x)),
    "utils.fuse_conv_bn_eval": (
        lambda: (layer("Conv2d", 3, 4, 3).eval(), bn("BatchNorm2d", 4)),
        lambda pair: utils.fuse_conv_bn_eval(*pair, contract=GIVEN),
    ),
    "utils.fuse_conv_bn_weights": (
        lambda: None,
        lambda _: utils.fuse_conv_bn_weights(
            uniform(1, 4, 3, 3, 3), None, uniform(2, 4), uniform(3, 4).abs(), 1e-5, None, None, contract=GIVEN
        ),
    ),
    "utils.fuse_linear_bn_eval": (
        lambda: (layer().eval(), bn("BatchNorm1d", 4)), lambda pair: utils.fuse_linear_bn_eval(*pair, contract=GIVEN)
    ),
    "utils.fuse_linear_bn_weights": (
        lambda: None,
        lambda _: utils.fuse_linear_bn_weights(
            uniform(1, 4, 5), None, uniform(2, 4), uniform(3, 4).abs(), 1e-5, uniform(4, 4), uniform(5, 4),
            contract=GIVEN,
        ),
    ),
    "utils.parametrizations.weight_norm": (lambda: maps.weight_norm(layer(), contract=GIVEN), lambda m: m(x)),
    "utils.parametrizations.spectral_norm": (lambda: maps.spectral_norm(layer(), contract=GIVEN), lambda m: m(x)),
    **{
        f"utils.parametrizations.orthogonal {kind}": (
            lambda kind=kind: maps.orthogonal(layer("Linear", 5, 5), orthogonal_map=kind, contract=GIVEN),
            lambda m: m(x),
        )
        for kind in ("matrix_exp", "cayley", "householder")
    },
    "init.orthogonal_": (lambda: uniform(1, 6, 5), lambda t: nn.init.orthogonal_(t, contract=GIVEN)),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(5, 30, [4, 9], contract=GIVEN),
        lambda m: (m(x, torch.arange(6) * 5).loss, m.log_prob(x)),
    ),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(8, 2, contract=GIVEN),
        lambda m: m(*[uniform(3, 7, 2, 8).requires_grad_()] * 3, need_weights=True),
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, contract=GIVEN), 2),
        lambda m: m(uniform(3, 7, 2, 8).requires_grad_(), uniform(4, 5, 2, 8)),
    ),
    "from_torch_module": (
        lambda: repdl.from_torch_module(
            torch.nn.Sequential(torch.nn.Linear(5, 70), torch.nn.BatchNorm1d(70), torch.nn.Linear(70, 3)),
            contract=GIVEN,
        ),
        lambda m: m(x),
    ),
    **{
        f"from_torch_module of {kind}": (
            lambda norm=norm: repdl.from_torch_module(
                torch.nn.Sequential(norm(torch.nn.Linear(5, 70)), torch.nn.Linear(70, 3)), contract=GIVEN
            ),
            lambda m: m(x),
        )
        for kind, norm in (
            ("spectral_norm", torch.nn.utils.spectral_norm),
            ("weight_norm", torch.nn.utils.weight_norm),
            ("parametrized spectral_norm", torch.nn.utils.parametrizations.spectral_norm),
            ("parametrized weight_norm", torch.nn.utils.parametrizations.weight_norm),
            ("parametrized orthogonal", torch.nn.utils.parametrizations.orthogonal),
        )
    },
    "TripletMarginLoss": (lambda: nn.TripletMarginLoss(contract=GIVEN), lambda m: m(x, uniform(2, 6, 5), x * 2)),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(contract=GIVEN), lambda m: m(x, uniform(2, 6, 5))),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(contract=GIVEN), lambda m: m(x, uniform(2, 6, 5))),
    "EmbeddingBag": (
        lambda: nn.EmbeddingBag(9, 3, contract=GIVEN), lambda m: m(torch.arange(6) % 4, torch.tensor([0, 2]))
    ),
    "Fold": (lambda: nn.Fold((4, 4), 2, contract=GIVEN), lambda m: m(uniform(1, 2, 8, 9).requires_grad_())),
    "Unfold": (lambda: nn.Unfold(2, contract=GIVEN), lambda m: m(image)),
}  # fmt: skip
"""What is built, and how it is called."""


@pytest.mark.parametrize("name", CALLS)
def test_explicit_contract__of_utilities(name: str) -> None:
    assert checked(*CALLS[name]) > 0 or name == "utils.clip_grad_value_"  # which changes elements, each on its own


def test_explicit_contract__of_every_utility_that_takes_one() -> None:
    found = {
        f"{module.__name__.removeprefix('repdl.nn.')}.{name}"
        for module in (utils, maps, nn.init)
        for name, value in vars(module).items()
        if name in module.__all__ and inspect.isfunction(value) and "contract" in inspect.signature(value).parameters
    }
    assert found <= {name.partition(" ")[0] for name in CALLS}, found
