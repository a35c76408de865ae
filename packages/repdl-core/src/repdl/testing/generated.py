"""Cases that follow from the schema of an op: what every op of its kind is tried with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch

from repdl.registry import OPS
from repdl.testing.cases import DOUBLE, Case
from repdl.testing.inputs import uniform

Make = Callable[..., torch.Tensor]


def columns_first(seed: int, *shape: int) -> torch.Tensor:
    """Dense, with the dimensions in reversed order in memory."""
    return uniform(seed, *shape[::-1]).permute(*range(len(shape))[::-1])


def gaps(seed: int, *shape: int) -> torch.Tensor:
    """Every other column of a wider tensor."""
    return uniform(seed, *shape[:-1], 2 * shape[-1])[..., ::2]


def mixed_layouts(seed: int, *shape: int) -> torch.Tensor:
    """Another layout for each list; the gradients (list 1) are expanded rows."""
    kind = seed % 10
    if kind == 1:
        return uniform(seed, 1, *shape[1:]).expand(shape)
    return (columns_first, gaps, uniform)[kind % 3](seed, *shape)


def step_cases(
    op: str,
    options: Mapping[str, Any],
    switches: Mapping[str, Sequence[Any]],
    lists: Mapping[str, Callable[[torch.Tensor], torch.Tensor]],
    absent: Mapping[str, Callable[[Mapping[str, Any]], bool]],
) -> list[Case]:
    """Every combination of a step's options, special values, magnitudes, sizes and layouts.

    Args:
        options: option -> the value that it has in most cases.
        switches: the same, several values of which all combinations are tried; most cases have the last ones.
        lists: name of a list -> what makes of numbers in [-1, 1) those that the list can hold.
        absent: name of a list -> whether options leave it out.
    """
    arguments = [argument.name for argument in OPS[op].overload._schema.arguments]
    plain = {**options, **{p: values[0] for p, values in switches.items()}}
    names = [p for p in arguments if p not in plain]

    def step(*shapes: tuple[int, ...], make: Make = uniform, kind: Mapping[str, Any] = {}, **given: Any) -> Any:
        """The arguments of a step; tensor i of list j is made of `make(10 * i + j, *shape)`."""
        chosen = {**plain, **given}
        columns = []
        for j, name in enumerate(names):
            tensors = [make(10 * i + j, *shape, **kind) for i, shape in enumerate(shapes)]
            columns.append(
                [] if name in absent and absent[name](chosen) else [lists.get(name, lambda t: t)(t) for t in tensors]
            )
        return (*columns, *(chosen[p] for p in arguments if p in plain))

    full = {p: values[-1] for p, values in switches.items()}
    numbers = {p: value for p, value in plain.items() if isinstance(value, float)}

    def case(name: str, dtypes: tuple[torch.dtype, ...], *shapes: tuple[int, ...], **rest: Any) -> Case:
        return Case(op, name, lambda: step(*shapes, **rest), dtypes=dtypes)

    found = []
    for values in product(*switches.values()):
        given = dict(zip(switches, values))
        on = "".join(f"_{p}" for p, value in given.items() if value)
        found.append(case(f"plain{on}", () if given.get("maximize") else DOUBLE, (7, 11), (3,), **given))
        if not given.get("maximize"):
            found.append(case(f"special{on}", () if on else DOUBLE, (300,), kind={"special": True}, **given))
    found += [
        case("subnormal", DOUBLE, (300,), kind={"scale": 2.0**-135}, **full),
        case("squares_underflow", (), (300,), kind={"scale": 2.0**-70}, **full),
        case("overflow", DOUBLE, (70,), kind={"scale": 2.0**120}, **full),
        case("subnormal_hyperparameters", (), (70,), **{**full, **dict.fromkeys(numbers, 1e-40)}),
        case("lr_overflows_float32", (), (9,), lr=1e300),
        *(case(f"size_{n}", DOUBLE if n in (65, 1025) else (), (n,), **full) for n in (1, 15, 16, 17, 63, 65, 1025)),
        *(case(f"size_{n}", (), (n,)) for n in (12287, 12288, 13000)),
        case("threads", DOUBLE, (9001,), (3,), (8000,), (0,), (257,), **full),
        case("no_elements", (), (0,), (3, 0)),
        case("zeros", (), (20,), make=lambda seed, *shape: torch.zeros(shape), **full),
        case("dim_0", DOUBLE, (), (), **full),
        case("permuted", DOUBLE, (4, 5, 6), (7, 3), make=columns_first, **full),
        case("gaps", (), (4, 5, 6), (7, 3), make=gaps, **full),
        case("mixed_layouts", DOUBLE, (4, 5, 6), (7, 3), make=mixed_layouts, **full),
        *(case(f"{p}_0", (), (9,), **{**full, p: 0.0}) for p in numbers if p not in switches),
    ]
    return found
