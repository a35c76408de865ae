"""Recorded draws of every function of repdl.random: the same under each backend, ISA level and number of threads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl import ops, random
from repdl.random import Generator, continuous, discrete
from repdl.random.multinomial import __all__ as multinomial

RECORDED = Path(__file__).with_name("random_recorded.json")
N = 203
HALF, DOUBLE = torch.bfloat16, torch.float64

Draw = Callable[[Generator], torch.Tensor]
WEIGHTS = (torch.arange(7 * 11) % 13).reshape(7, 11) / 8
FILLS: dict[str, tuple[Any, ...]] = {
    "uniform_": (-0.3, 0.7),
    "normal_": (1, 2),
    "trunc_normal_": (0.5, 2, 0, 3),
    "exponential_": (3,),
    "cauchy_": (1, 2),
    "log_normal_": (0.5, 0.25),
    "geometric_": (0.05,),
    "bernoulli_": (0.3,),
    "random_": (1000,),
}


def filled(name: str, dtype: torch.dtype) -> Draw:
    args = (100,) if name == "random_" and dtype is HALF else FILLS[name]
    return lambda g: getattr(random, name)(torch.empty(29, 7, dtype=dtype).t(), *args, generator=g)


def dropped(name: str) -> Draw:
    shape = {"dropout1d": (5, 6, 7), "dropout3d": (5, 6, 2, 3, 2)}.get(name, (5, 6, 2, 3))
    x = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape) / 16
    return lambda g: getattr(ops, name)(x, 0.3, True, generator=g)


DRAWS: dict[str, Draw] = {
    "rand": lambda g: random.rand(N, generator=g),
    "rand, float64": lambda g: random.rand(N, dtype=DOUBLE, generator=g),
    "rand, bfloat16": lambda g: random.rand(N, dtype=HALF, generator=g),
    "randn": lambda g: random.randn(N, generator=g),
    "randint": lambda g: random.randint(-5, 8, (N,), generator=g),
    "randint, 40 bits": lambda g: random.randint(3**25, (N,), generator=g),
    "randint, 63 bits": lambda g: random.random_(torch.empty(N, dtype=torch.int64), generator=g),
    "randint, 64 bits": lambda g: random.random_(torch.empty(N, dtype=torch.int64), -(2**63), None, generator=g),
    "randperm": lambda g: random.randperm(N, generator=g),
    "bernoulli": lambda g: random.bernoulli(torch.linspace(0, 1, N), generator=g),
    "normal, tensors": lambda g: random.normal(torch.arange(5.0), torch.arange(3.0)[:, None], generator=g),
    "multinomial": lambda g: random.multinomial(WEIGHTS, 4, generator=g),
    "multinomial, replacement": lambda g: random.multinomial(WEIGHTS, 50, True, generator=g),
    "multinomial, float64": lambda g: random.multinomial(WEIGHTS.double(), 50, True, generator=g),
    "geometric_, uint8": lambda g: random.geometric_(torch.empty(N, dtype=torch.uint8), 0.01, generator=g),
    "spawn": lambda g: torch.stack([child.get_state() for child in (*g.spawn(3), g.fork(0), g.fork(7))]),
    **{name: filled(name, torch.float32) for name in FILLS},
    **{f"{name}, bfloat16": filled(name, HALF) for name in FILLS},
    **{name: dropped(name) for name in ops.__all__ if "dropout" in name},
    "poisson": lambda g: random.poisson(torch.arange(N) / 3, g),
}


def digests() -> dict[str, str]:
    """Of each draw, the second from its generator, whose offset is odd."""
    found = {}
    for seed, (name, draw) in enumerate(DRAWS.items()):
        generator = Generator(seed, stream=3)
        random.rand(5, generator=generator)
        found[name] = repdl.digest({name: draw(generator), "state": generator.get_state()})
    found["sampler"] = repdl.digest({"order": torch.tensor(random.sampler(range(N), 4).order())})
    return found


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    before = repdl.get_num_threads()
    repdl.set_num_threads(number)
    try:
        yield
    finally:
        repdl.set_num_threads(before)


def settings() -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    """Name -> a context in which the draws are made."""
    usable = [row.name for row in repdl.backends().values() if row.error is None and row.device == "cpu"]
    found = {name: (lambda name=name: repdl.use_backend(name)) for name in usable}  # type: ignore[misc]
    if "cpu" in usable:
        from repdl_cpu import supported_isas, use_isa

        found |= {isa: (lambda isa=isa: use_isa(isa)) for isa in supported_isas()}  # type: ignore[misc]
        found |= {f"{n} threads": (lambda n=n: threads(n)) for n in (1, 2, 3, 7)}  # type: ignore[misc]
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", settings())
def test_recorded__draws(name: str) -> None:
    with settings()[name]():
        assert digests() == json.loads(RECORDED.read_text())


def test_recorded__every_function_is_there() -> None:
    public = {name for names in (continuous.__all__, discrete.__all__, multinomial) for name in names}
    same = {"rand_like": "rand", "randn_like": "randn", "randint_like": "randint", "normal": "normal, tensors"}
    assert {same.get(name, name) for name in public} - DRAWS.keys() == {"binomial"}


if __name__ == "__main__":  # records: new names only
    now = digests()
    before = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    RECORDED.write_text(json.dumps({**now, **before}, indent=2, sort_keys=True) + "\n")
