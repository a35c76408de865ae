"""What a refusal advises: the function of RepDL that has the place of the one that the program calls, by its own name.

Not that of the ops that torch composes it of, each of which is refused. What is named exists.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn import init, utils

import repdl
from repdl.nn import functional
from repdl.testing import opinfo
from watched import Model, refusal, x

positions = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="before Python 3.11 a frame does not say at which call of its line it stands"
)
SAMPLES = 2
"""Of torch's database, of each of its entries."""
IMAGE, FLAT = torch.linspace(-2, 2, 72).view(1, 2, 6, 6), torch.linspace(-2, 2, 12).view(1, 2, 6)
NOTHING_REFUSED = {"affine_grid", "softsign", "threshold", "threshold_", "hardtanh_", "relu_", "leaky_relu_"}
"""Functions that the tables of the audit let pass for some samples, as they round once or not at all."""


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def advised(function: Callable[..., Any], *args: Any, **kwargs: Any) -> set[str | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about names that are deprecated
        report = repdl.audit(call, function, *args, **kwargs)
    return {row.remedy for row in report.refused}


def exists(name: str) -> bool:
    module, _, function = name.rpartition(".")
    return callable(getattr(import_module(module), function))


def samples(info: Any) -> Iterator[Any]:
    """Of an entry of torch's database."""
    return islice(info.sample_inputs("cpu", torch.float32, requires_grad=True), SAMPLES)


def of_torch(name: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of a function of torch.nn.functional."""
    base = name.removesuffix("_with_indices").rstrip("_")
    pools = {1: FLAT, 2: IMAGE, 3: IMAGE[None]}
    size = next((n for n in pools if name.rstrip("_").removesuffix("_with_indices").endswith(f"{n}d")), 2)
    ours: dict[str, tuple[Any, ...]] = {
        "affine_grid": (x.view(-1)[:6].view(1, 2, 3), [1, 1, 2, 2]),
        "embedding": (torch.tensor([0, 1, 1]), x.clone().requires_grad_()),
        "fold": (torch.ones(1, 4, 4).requires_grad_(), 3, 2),
        "grouped_mm": (torch.ones(2, 4, 8).bfloat16(), torch.ones(2, 8, 8).bfloat16()),
        "gumbel_softmax": (x,),
        "threshold": (x, 0.5, 0.25),
        "upsample": (IMAGE.clone().requires_grad_(), None, 2, "bilinear"),
    }
    if base in ours:
        yield ours[base], {}
    elif "pool" in name and not (known := opinfo.database().get(f"nn.functional.{name}")):
        yield ((pools[size].clone().requires_grad_(), *((2.0,) if "lp_" in name else ()), 2), {})
    elif "dropout" in name or name.endswith("_"):
        yield (FLAT.clone(),), {"training": True} if "dropout" in name or "rrelu" in name else {}
    else:
        known = opinfo.database().get(f"nn.functional.{name}") or opinfo.database()[name]
        for info in known:
            for sample in samples(info):
                yield (sample.input, *sample.args), sample.kwargs


@positions
def test_remedies__every_function_of_functional_by_its_name() -> None:
    pytest.importorskip("expecttest", reason="torch's database of ops needs it")
    for name in functional.__all__:
        if name in functional.MOVES:
            continue
        found = set().union(*(advised(getattr(F, name), *args, **kwargs) for args, kwargs in of_torch(name)))
        assert found == {f"repdl.nn.functional.{name}"} or (name in NOTHING_REFUSED and not found), (name, found)


@positions
def test_remedies__every_function_of_ops_by_its_name() -> None:
    """Those of torch, torch.linalg and the methods of tensors, derivatives included."""
    pytest.importorskip("expecttest", reason="torch's database of ops needs it")
    named, homes = set(), (torch, torch.linalg, torch.Tensor)
    for name in repdl.ops.__all__:
        infos = opinfo.database().get(name) or opinfo.database().get(f"linalg.{name}") or ()
        for home in (torch,) if name in ("norm", "unfold") else homes:  # whose functions of that name are others
            function = getattr(home, name, None)
            for info in infos if function is not None else ():
                for sample in samples(info):
                    try:
                        found = advised(function, sample.input, *sample.args, **sample.kwargs)
                    except (TypeError, RuntimeError):  # another order of arguments, or only integers
                        continue
                    own = {f"repdl.ops.{name}", f"repdl.nn.functional.{name}", *((None,) if name == "norm" else ())}
                    assert found <= own, (home, name, found)
                    named |= found
    assert len(named) > 120


def layer(kind: Callable[..., torch.nn.Module] = torch.nn.Linear, *args: Any) -> Any:
    made = kind(*(args or (4, 4))).eval()
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    return made


def test_remedies__of_utilities() -> None:
    sequences = torch.arange(24.0).view(2, 3, 4).requires_grad_()
    conv, norm, normed = layer(torch.nn.Conv2d, 2, 2, 3), layer(torch.nn.BatchNorm2d, 2), utils.spectral_norm(layer())
    calls: dict[str, Callable[[Any], Any]] = {
        "utils.rnn.pack_padded_sequence": lambda _: utils.rnn.pack_padded_sequence(sequences, [2, 3], True, False),
        "utils.rnn.pack_sequence": lambda _: utils.rnn.pack_sequence([*sequences], enforce_sorted=False),
        "utils.clip_grad_norm_": lambda made: utils.clip_grad_norm_(made.parameters(), 0.5),
        "utils.get_total_norm": lambda made: utils.get_total_norm([made.weight.grad]),
        "utils.fuse_conv_bn_eval": lambda _: utils.fuse_conv_bn_eval(conv, norm),
        "utils.weight_norm": lambda made: utils.weight_norm(made),
        "utils.spectral_norm": lambda _: normed(x),
        "utils.parametrizations.weight_norm": lambda made: utils.parametrizations.weight_norm(made),
        "utils.parametrizations.spectral_norm": lambda made: utils.parametrizations.spectral_norm(made),
        "utils.parametrizations.orthogonal": lambda made: utils.parametrizations.orthogonal(made),
        "utils.prune.l1_unstructured": lambda made: utils.prune.l1_unstructured(made, "weight", 0.5),
        "utils.prune.ln_structured": lambda made: utils.prune.ln_structured(made, "weight", 0.5, 2, 0),
        "utils.prune.random_unstructured": lambda made: utils.prune.random_unstructured(made, "weight", 0.5),
        "init.xavier_uniform_": lambda made: init.xavier_uniform_(made.weight),
        "init.normal_": lambda made: init.normal_(made.weight),
        "init.trunc_normal_": lambda made: init.trunc_normal_(made.weight),
        "init.orthogonal_": lambda made: init.orthogonal_(made.weight),
    }
    for name, of in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about names that are deprecated
            refused = repdl.audit(of, layer()).refused
        found = {row.remedy for row in refused} - {"repdl.nn.Linear"}  # of normed
        assert {row.location.file for row in refused} == {__file__}, "and not a decorator's"
        assert found and (name, found) == (name, {f"repdl.nn.{name}"}) and exists(f"repdl.nn.{name}")


def test_remedies__of_a_layer_of_torch() -> None:
    """A model that was not converted: the layer, and not what torch computes it by."""
    attention = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    found = {(row.module, row.remedy) for row in repdl.audit(attention, x).refused}
    assert ("norm1", "repdl.nn.LayerNorm") in found and ("linear1", "repdl.nn.Linear") in found
    assert ("self_attn", "repdl.nn.MultiheadAttention") in found


def test_remedies__what_a_converted_model_says() -> None:
    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1).expand(4).copy_(q[0])

    text = refusal(lambda: repdl.from_torch_module(Model(own))(x))
    assert "aten.copy_.default, " in text and "; use a .clone() of it; from_torch_module(strict=False)" in text
