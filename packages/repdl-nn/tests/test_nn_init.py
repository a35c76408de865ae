"""repdl.nn.init: torch's functions and distributions, draws of repdl.random."""

from __future__ import annotations

import contextlib
import inspect
import math
from typing import Any

import pytest
import torch

import repdl
from repdl import nn, ops, random
from repdl.errors import OutOfRangeError, ShapeError, UnsupportedError
from repdl.nn import init
from repdl.nn.householder import orthogonal_columns
from repdl.random import Generator
from repdl.testing import assert_same_bits
from repdl.testing.environment import DIRECTIONS, rounding

DRAWING = (
    "uniform_",
    "normal_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
)


def test_init__all_of_torchs_functions_with_its_signatures() -> None:
    torchs = {name for name in torch.nn.init.__all__ if name.endswith("_") or name == "calculate_gain"}
    assert set(init.__all__) == torchs
    for name in torchs:
        mine, theirs = (inspect.signature(getattr(m, name)).parameters for m in (init, torch.nn.init))
        pairs = [(p.name, p.default) for p in mine.values() if p.name != "contract"]
        assert pairs == [(p.name, p.default) for p in theirs.values()], name


def test_init__spread_is_torchs() -> None:
    """Standard deviation and largest magnitude of 40,000 elements, within 3% of torch's."""
    for name in DRAWING:
        args: tuple[Any, ...] = (0.3,) if name == "sparse_" else ()
        ours = getattr(init, name)(torch.empty(200, 200), *args, generator=Generator(1))
        theirs = getattr(torch.nn.init, name)(torch.empty(200, 200), *args)
        assert abs(ours.std() / theirs.std() - 1) < 0.03 and abs(ours.mean() - theirs.mean()) < 0.03, name
        if name.endswith("uniform_"):
            assert abs(ours.abs().max() / theirs.abs().max() - 1) < 0.01
    options: list[dict[str, Any]] = [{"mode": "fan_out"}, {"nonlinearity": "relu"}, {"a": math.sqrt(5)}]
    for kernel in (init.kaiming_uniform_, init.kaiming_normal_):
        for option in options:
            ours = kernel(torch.empty(60, 20, 3, 3), generator=Generator(1), **option)
            theirs = getattr(torch.nn.init, kernel.__name__)(torch.empty(60, 20, 3, 3), **option)
            assert abs(ours.std() / theirs.std() - 1) < 0.05


def test_init__draws_of_the_generator() -> None:
    for name in DRAWING:
        args: tuple[Any, ...] = (0.3,) if name == "sparse_" else ()
        w = torch.nn.Parameter(torch.empty(6, 4))
        assert getattr(init, name)(w, *args, generator=Generator(3)) is w and w.requires_grad
        random.manual_seed(3)
        for other in (torch.empty(6, 4), torch.empty(4, 6).t()):
            random.manual_seed(3)
            assert_same_bits(getattr(init, name)(other, *args), w)
        half = getattr(init, name)(torch.empty(6, 4, dtype=torch.bfloat16), *args, generator=Generator(3))
        if name not in ("uniform_", "xavier_uniform_", "kaiming_uniform_"):  # those stay below their bound
            assert_same_bits(half, ops.cast(w.detach(), torch.bfloat16))
        assert getattr(init, name)(torch.empty(6, 4, device="meta"), *args).is_meta


def test_init__orthogonal() -> None:
    for shape in ((7, 7), (40, 7), (7, 40), (1, 5), (5, 1), (8, 3, 3, 3)):
        w = init.orthogonal_(torch.empty(shape), 2.0, Generator(1)).view(shape[0], -1).double()
        product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        # n columns, each through n reflections of a few roundings: 40 * 2**-24 * 4 is far more than is seen.
        assert (product - 4 * torch.eye(len(product))).abs().max() < 40 * 2.0**-24 * 4


def test_init__orthogonal_in_float64() -> None:
    w = init.orthogonal_(torch.empty(12, 7, dtype=torch.float64), generator=Generator(1))
    assert (w.T @ w - torch.eye(7, dtype=torch.float64)).abs().max() < 40 * 2.0**-53


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_init__orthogonal_halves_are_rounded_once(dtype: torch.dtype) -> None:
    for shape, gain in (((16, 16), 2**0.5), ((9, 40), 1.0), ((40, 9), 0.3)):
        single = init.orthogonal_(torch.empty(shape), gain, Generator(1))
        assert_same_bits(init.orthogonal_(torch.empty(shape, dtype=dtype), gain, Generator(1)), single.to(dtype))


def test_init__orthogonal_is_the_factor_of_what_is_drawn() -> None:
    drawn = random.randn(9, 5, generator=Generator(1))
    q, r = torch.linalg.qr(drawn.double())
    expected = q * r.diagonal().sign()
    for contract in ("v1", "sequential"):
        ours = init.orthogonal_(torch.empty(9, 5), generator=Generator(1), contract=contract)
        assert (ours - expected).abs().max() < 64 * 2.0**-24
        with repdl.use_backend("reference"):
            assert_same_bits(init.orthogonal_(torch.empty(9, 5), generator=Generator(1), contract=contract), ours)
    zeros = orthogonal_columns(torch.zeros(4, 3), "v1")
    assert torch.equal(zeros.abs(), torch.eye(4, 3))


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (6, 6), (4, 3, 3, 3)])
def test_enable__orthogonal_is_that_of_repdl(shape: tuple[int, ...]) -> None:
    repdl.random.manual_seed(7)
    ours = init.orthogonal_(torch.empty(shape), 0.7)
    with repdl.enabled():
        torch.manual_seed(7)
        assert_same_bits(torch.nn.init.orthogonal_(torch.empty(shape), 0.7), ours)


def test_init__sparse() -> None:
    w = init.sparse_(torch.empty(10, 30), 0.25, generator=Generator(1))
    assert ((w == 0).sum(dim=0) == 3).all()


def test_init__bad_arguments() -> None:
    generator = Generator(1)
    for call, error, message in (
        (lambda: init.xavier_uniform_(torch.empty(3), generator=generator), ShapeError, "tensor.dim"),
        (lambda: init.kaiming_normal_(torch.empty(3), generator=generator), ShapeError, "tensor.dim"),
        (lambda: init.kaiming_normal_(torch.empty(3, 3), mode="fan", generator=generator), ShapeError, "mode is 'fan'"),
        (lambda: init.orthogonal_(torch.empty(3), generator=generator), ShapeError, "tensor.dim"),
        (
            lambda: init.orthogonal_(torch.empty(3, 3, dtype=torch.int32), generator=generator),
            UnsupportedError,
            "int32",
        ),
        (lambda: init.sparse_(torch.empty(3), 0.5, generator=generator), ShapeError, "dim"),
        (lambda: init.sparse_(torch.empty(3, 3), 1.5, generator=generator), OutOfRangeError, "sparsity is 1.5"),
        (lambda: init.normal_(torch.empty(3), std=-1, generator=generator), OutOfRangeError, "std is -1"),
    ):
        with pytest.raises(error, match=message):
            call()
        assert generator.offset == 0
    with pytest.warns(UserWarning, match="without elements"):
        init.kaiming_uniform_(torch.empty(0, 3))


# The default initialisation of layers

LAYERS = (lambda **o: nn.Linear(20, 30, **o), lambda **o: nn.Conv2d(3, 8, 3, **o))


@pytest.mark.parametrize("make", LAYERS, ids=["Linear", "Conv2d"])
def test_layers__who_draws_their_initial_values(make: Any) -> None:
    torch.manual_seed(0)
    torchs = getattr(torch.nn, type(make()).__name__)
    torch.manual_seed(0)
    theirs = torchs(20, 30) if torchs is torch.nn.Linear else torchs(3, 8, 3)
    torch.manual_seed(0)
    for name, value in make().state_dict().items():
        assert_same_bits(value, theirs.state_dict()[name])

    state = torch.get_rng_state()
    given = make(generator=Generator(4))
    random.manual_seed(4)
    default = make()
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in given.state_dict().items():
        assert_same_bits(value, default.state_dict()[name])
        assert value.numel() < 100 or abs(value.std() / theirs.state_dict()[name].std() - 1) < 0.2
        assert value.abs().max() <= 1 / math.sqrt(theirs.weight[0].numel())
    random.manual_seed(4)
    default.reset_parameters()
    assert_same_bits(given.weight, default.weight)
    assert make(bias=False).bias is None and make(device="meta").weight.is_meta


def test_layers__none_draws_from_torch_where_a_generator_is_given() -> None:
    """Of all layers; whoever adds one that draws has to say so in its `reset_parameters`."""
    layers = [c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Layer) and c is not nn.Layer]
    drawing = set()
    for layer in layers:
        parts = nn.TransformerEncoderLayer(2, 2, 2), nn.TransformerDecoderLayer(2, 2, 2)
        for args in ((), (2,), (2, 2), (2, 2, 2), (8, 12, [4, 7]), *((part, 1) for part in parts)):
            state, generator = torch.get_rng_state(), Generator(1)
            with contextlib.suppress(TypeError, AttributeError):
                layer(*args, generator=generator)
                break
        else:
            raise AssertionError(f"how is {layer.__name__} made?")
        assert torch.equal(torch.get_rng_state(), state), layer.__name__
        drawing |= {layer.__name__} if generator.offset else set()
    assert drawing >= {"Linear", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"}


def test_layers__generator_of_torch_is_refused() -> None:
    with pytest.raises(TypeError, match="Linear: generator is torch._C.Generator"):
        nn.Linear(2, 2, generator=torch.Generator())  # type: ignore[arg-type]


def test_layers__dropout_draws_from_its_generator() -> None:
    x = torch.ones(50)
    layer = nn.Dropout(0.5, generator=Generator(1))
    assert torch.equal(layer(x), ops.dropout(x, 0.5, generator=Generator(1))) and "p=0.5" in repr(layer)
    assert not torch.equal(layer(x), ops.dropout(x, 0.5, generator=Generator(1)))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_init__bounds_do_not_see_the_rounding_mode(direction: str) -> None:
    """In float64, where a bound's last bit shows in the numbers drawn."""

    def draws() -> list[torch.Tensor]:
        empty = torch.empty(6, 5, dtype=torch.float64)
        return [
            init.xavier_normal_(empty.clone(), 1.7, generator=Generator(1)),
            init.kaiming_uniform_(empty.clone(), 0.3, generator=Generator(1)),
            init.kaiming_normal_(empty.clone(), nonlinearity="tanh", generator=Generator(1)),
        ]

    expected = draws()
    with rounding(direction):
        actual = draws()
    for got, wanted in zip(actual, expected, strict=True):
        assert_same_bits(got, wanted, direction)
