"""Cases made from declarations (`repdl.registry.declaration`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch

from repdl.dtypes import FLOATS_16_BIT
from repdl.registry import OPS
from repdl.registry.declaration import DECLARATIONS
from repdl.testing.case import Case
from repdl.testing.dtypes import DOUBLE, EVERY
from repdl.testing.inputs import SPECIAL, floats, uniform

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


def specials() -> torch.Tensor:
    """`SPECIAL`, and numbers of every size."""
    return torch.tensor([*SPECIAL, 2.0, -1.0, -3.5, 3e38, -3e38, 1e-40, 0.1, -20.0, 1e13, -1e13])


def some_specials() -> torch.Tensor:
    """`SPECIAL`, and a few numbers of other sizes."""
    return torch.tensor([*SPECIAL, 2.0, -1.0, -3.5, 3e38, -3e38, 1e-40, 0.1])


def special_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Each of `some_specials` with each, by broadcasting."""
    x = some_specials()
    return x.unsqueeze(1), x


OF_ONE: dict[str, Callable[[], torch.Tensor]] = {
    "special": specials,
    "values": lambda: uniform(1, 1037, scale=8.0),
    "wide": lambda: uniform(1, 300, scale=128.0),
    "tiny": lambda: uniform(1, 300, scale=2.0**-120),
    "strided": lambda: uniform(2, 30, 9)[::2, 1::3],
    "permuted": lambda: uniform(2, 3, 4, 5).permute(2, 0, 1),
    "empty": lambda: uniform(2, 0, 5),
    "dim_0": lambda: uniform(2),
}
"""Arguments for a function of one tensor."""


def pointwise_cases(op: str, tensors: int, option_sets: Sequence[tuple[Any, ...]], same_shape: bool) -> list[Case]:
    """Special values, every magnitude, layouts, for each of the sets of options.

    Args:
        tensors: their number; with `same_shape` the first is a gradient, and the last what it belongs to.
    """
    if tensors > 1 and not same_shape:
        return [case for i, options in enumerate(option_sets) for case in broadcast_cases(op, tensors, i, options)]
    found = []
    for i, options in enumerate(option_sets):
        for name, make in OF_ONE.items():
            found.append(
                Case(
                    op,
                    f"{name}_{i}",
                    lambda m=make, o=options: (*(uniform(9 - k, *m().shape) for k in range(tensors - 1)), m(), *o),
                    dtypes=EVERY if name == "values" or (name, i) == ("special", 0) else (),
                )
            )
        if same_shape:
            some = len(specials())
            found += [
                Case(
                    op,
                    f"special_grad_{i}",
                    lambda o=options: (specials(), *(uniform(1 + k, some) for k in range(tensors - 1)), *o),
                ),
                Case(
                    op,
                    f"subnormal_{i}",
                    lambda o=options: (
                        uniform(9, 300, scale=2.0**-130),
                        *(uniform(1 + k, 300) for k in range(tensors - 1)),
                        *o,
                    ),
                ),
            ]
    return found


def unary_cases(op: str, hard: str = "", magnitudes: int = 0, scale: float = 0.0, subnormal: float = 0.0) -> list[Case]:
    """Cases of an elementwise function of one tensor.

    Args:
        hard: arguments that decide whether results are correctly rounded, as bits in hexadecimal: those whose results
            lie closest to the midpoint of two floats, or at the ends of the range.
        magnitudes: how many positive arguments, evenly spread over all exponents.
        scale, subnormal: bounds of more arguments; results of the latter are subnormal.
    """
    found = [
        Case(op, "special", lambda: (some_specials(),), dtypes=EVERY),
        Case(op, "values", lambda: (uniform(1, 1037, scale=4.0),), dtypes=EVERY),
        Case(op, "strided", lambda: (uniform(2, 30, 9)[::2, 1::3],), dtypes=EVERY),
        Case(op, "empty", lambda: (uniform(2, 0, 5),), dtypes=EVERY),
        Case(op, "dim_0", lambda: (uniform(2),), dtypes=DOUBLE),
    ]
    if hard:
        found.append(Case(op, "hard", lambda: (floats(*(int(bits, 16) for bits in hard.split())),)))
    if magnitudes:
        found.append(Case(op, "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // magnitudes)),)))
    if scale:
        found.append(Case(op, "wide", lambda: (uniform(3, 1500, scale=scale),)))
    if subnormal:
        found.append(Case(op, "subnormal", lambda: (uniform(1, 200, scale=subnormal),), dtypes=DOUBLE))
    return found


def binary_cases(op: str) -> list[Case]:
    """Cases of an elementwise function of two tensors: special values against each other, broadcasting, layouts."""
    return [
        Case(op, "special", special_pairs, dtypes=EVERY),
        Case(op, "values", lambda: (uniform(1, 1037), uniform(2, 1037)), dtypes=EVERY),
        Case(op, "scalar_other", lambda: (uniform(1, 5, 7), torch.tensor(0.3)), dtypes=DOUBLE),
        Case(op, "scalar_input", lambda: (torch.tensor(0.3), uniform(1, 5, 7))),
        Case(op, "outer", lambda: (uniform(1, 3, 1, 5, 1), uniform(2, 4, 1, 6)), dtypes=DOUBLE),
        Case(op, "transposed", lambda: (uniform(1, 9, 40).t(), uniform(2, 40, 9)), dtypes=EVERY),
        Case(op, "empty", lambda: (uniform(1, 0, 5), uniform(2, 5)), dtypes=EVERY),
        Case(op, "dim_0", lambda: (uniform(1), uniform(2)), dtypes=DOUBLE),
    ]


def broadcast_cases(
    op: str, tensors: int, number: int, options: tuple[Any, ...], same_shape: bool = False
) -> list[Case]:
    """Cases with up to three operands, which broadcast unless they must have one shape."""
    outer = [(5, 7)] * 3 if same_shape else [(5, 7), (7,), (5, 1)]

    def special() -> list[torch.Tensor]:
        x = some_specials()
        operands = [x.reshape(17, 1), x.reshape(1, 17), x.reshape(17, 1, 1)]
        return (list(torch.broadcast_tensors(*operands[:2])) if same_shape else operands)[:tensors]

    makes: dict[str, Callable[[], list[torch.Tensor]]] = {
        "special": special,
        "values": lambda: [uniform(1 + k, 1037) for k in range(tensors)],
        "strided": lambda: [uniform(1 + k, 30, 9)[::2, 1::3] for k in range(tensors)],
        "transposed": lambda: [uniform(1 + k, 9, 40).t() if k == 0 else uniform(1 + k, 40, 9) for k in range(tensors)],
        "outer": lambda: [uniform(1 + k, *outer[k]) for k in range(tensors)],
        "empty": lambda: [uniform(1 + k, 0, 5) for k in range(tensors)],
        "dim_0": lambda: [uniform(1 + k) for k in range(tensors)],
    }
    return [
        Case(
            op,
            f"{name}_{number}",
            lambda m=make: (*m(), *options),
            dtypes=EVERY if name in ("special", "values") else (),
        )
        for name, make in makes.items()
    ]


def loss_cases(op: str, option_sets: Sequence[tuple[Any, ...]], operands: tuple[str, ...]) -> list[Case]:
    """Special values, reductions, layouts, for each of the sets of options.

    Args:
        operands: what the first tensors hold: "any"; "size", which special values alone have a sign in; "unit",
            numbers from 0 to 1; "variance", not negative; "sign", 1 or -1.
    """

    def make(seed: int, *shape: int, kind: str) -> torch.Tensor:
        x = uniform(seed, *shape)
        if kind == "sign":
            return torch.where(x < 0, -1.0, 1.0)
        return x if kind == "any" else x.abs()

    def all_of(*shape: int) -> tuple[torch.Tensor, ...]:
        return tuple(make(1 + k, *shape, kind=kind) for k, kind in enumerate(operands))

    def tiny() -> tuple[torch.Tensor, ...]:
        factors = (1.0 if kind == "sign" else 2.0**-67 for kind in operands)  # exact; squares are subnormal
        return tuple(x * factor for x, factor in zip(all_of(300), factors))

    def special(most: float = 1.0) -> list[torch.Tensor]:
        x = torch.tensor([*SPECIAL, 2.0, -1.0, 0.5])
        within = {"unit": (x >= 0) & (x <= most), "variance": ~(x < 0)}
        found = [x[within.get(kind, slice(None))] for kind in operands]
        return [t.reshape(-1, *[1] * (len(operands) - 1 - k)) for k, t in enumerate(found)]

    def transposed() -> tuple[torch.Tensor, ...]:
        first, *others = operands
        return make(1, 40, 30, kind=first).t(), *(make(2 + k, 30, 40, kind=kind) for k, kind in enumerate(others))

    # Of 1 a derived case in float64 makes a number above it.
    unit = "unit" in operands
    below_1 = [
        Case(op, f"below_1_{i}", lambda o=o: (*special(0.5), *o, "none"), dtypes=DOUBLE)
        for i, o in enumerate(option_sets)
        if unit
    ]
    return below_1 + [
        case
        for i, o in enumerate(option_sets)
        for case in (
            Case(op, f"special_{i}", lambda o=o: (*special(), *o, "none"), dtypes=FLOATS_16_BIT if unit else EVERY),
            Case(op, f"values_{i}", lambda o=o: (*all_of(1037), *o, "mean"), dtypes=EVERY),
            Case(op, f"sum_{i}", lambda o=o: (*transposed(), *o, "sum")),
            Case(op, f"subnormal_{i}", lambda o=o: (*tiny(), *o, "none")),
            Case(op, f"empty_{i}", lambda o=o: (*all_of(0, 5), *o, "mean")),
            Case(op, f"dim_0_{i}", lambda o=o: (*all_of(), *o, "sum")),
        )
    ]


def formula_cases(op: str, tensors: int, option_sets: Sequence[tuple[Any, ...]]) -> list[Case]:
    """Few cases, of what is a formula of ops with cases of their own: special values, sizes, layouts."""
    makes: dict[str, Callable[[], tuple[torch.Tensor, ...]]] = {
        "special": special_pairs if tensors == 2 else lambda: (specials(),),
        "values": lambda: tuple(uniform(1 + k, 137, scale=8.0) for k in range(tensors)),
        "transposed": lambda: (uniform(1, 9, 40).t(), uniform(2, 9))[:tensors],
        "empty": lambda: (uniform(1, 0, 5), uniform(2, 5))[:tensors],
    }
    return [
        Case(
            op,
            name if len(option_sets) == 1 else f"{name}_{i}",
            lambda m=make, o=o: (*m(), *o),
            dtypes=EVERY if (name, i) == ("special", 0) else (),
        )
        for i, o in enumerate(option_sets)
        for name, make in makes.items()
    ]


def glu_cases(op: str) -> list[Case]:
    """Special values against each other, dimensions, layouts."""

    def special() -> torch.Tensor:
        return torch.stack(torch.broadcast_tensors(*special_pairs()), 1).flatten(1)

    return [
        Case(op, "special", lambda: (special(), 1), dtypes=EVERY),
        Case(op, "values", lambda: (uniform(1, 5, 34, scale=4.0), 1), dtypes=EVERY),
        Case(op, "first_dim", lambda: (uniform(2, 6, 5, 3), 0)),
        Case(op, "strided", lambda: (uniform(3, 8, 20)[::2, 1::3].t(), 1)),
        Case(op, "empty", lambda: (uniform(1, 0, 4), 0)),
    ]


STEPS: dict[str, dict[str, Any]] = {
    "lr_overflows_float32": {"shapes": [(9,)], "lr": 1e300},
    **{f"size_{n}": {"shapes": [(n,)]} for n in (12287, 12288, 13000)},
    "no_elements": {"shapes": [(0,), (3, 0)]},
}
"""Cases of every step, with the options that most cases of an op do not have."""

MOST_STEPS: dict[str, dict[str, Any]] = {
    "subnormal": {"shapes": [(300,)], "scale": 2.0**-135, "double": True},
    "squares_underflow": {"shapes": [(300,)], "scale": 2.0**-70},
    "overflow": {"shapes": [(70,)], "scale": 2.0**120, "double": True},
    **{f"size_{n}": {"shapes": [(n,)], "double": n in (65, 1025)} for n in (1, 15, 16, 17, 63, 65, 1025)},
    "threads": {"shapes": [(9001,), (3,), (8000,), (0,), (257,)], "double": True},
    "zeros": {"shapes": [(20,)], "values": ()},
    "dim_0": {"shapes": [(), ()], "double": True},
    "permuted": {"shapes": [(4, 5, 6), (7, 3)], "make": columns_first, "double": True},
    "gaps": {"shapes": [(4, 5, 6), (7, 3)], "make": gaps},
    "mixed_layouts": {"shapes": [(4, 5, 6), (7, 3)], "make": mixed_layouts, "double": True},
}
"""The same with these options."""


def step_cases(
    op: str,
    options: Mapping[str, Any],
    lists: Mapping[str, Callable[[torch.Tensor], torch.Tensor]],
    absent: Mapping[str, Callable[[Mapping[str, Any]], bool]],
    switches: Mapping[str, Sequence[Any]] = {},
    most: Mapping[str, Any] = {},
    cases: Mapping[str, Mapping[str, Any]] = {},
) -> list[Case]:
    """Combinations of a step's options, special values, magnitudes, sizes and layouts.

    Args:
        options: option -> its value.
        lists: name of a list -> what makes of numbers in [-1, 1) those that the list can hold.
        absent: name of a list -> whether options leave it out.
        switches: option -> several values; all combinations are tried.
        most: options -> the values that they have in most cases; by default the last of `switches`.
        cases: name -> the options of a case, beside or in place of those that the case of that name has here,
            and how its tensors are made: `shapes`, `scale` and `special` as of `uniform`, or `values`, one
            a list (the others are 0); whether `lists` is passed over (`any_sign`), whether in float64 too (`double`).
    """
    arguments = [argument.name for argument in OPS[op].overload._schema.arguments]
    plain = {**{p: values[0] for p, values in switches.items()}, **options}
    most = {**{p: values[-1] for p, values in switches.items()}, **most}
    numbers = [p for p, value in plain.items() if isinstance(value, float)]

    def step(
        chosen: Mapping[str, Any],
        shapes: Sequence[tuple[int, ...]] = ((1,),),
        make: Make = uniform,
        values: Sequence[float] | None = None,
        any_sign: bool = False,
        **kind: Any,
    ) -> tuple[Any, ...]:
        """The arguments of a step; tensor i of list j is made of `make(10 * i + j, *shape)`."""
        columns: list[list[torch.Tensor]] = []
        for j, name in enumerate(p for p in arguments if p not in plain):
            if values is not None:
                tensors = [torch.full(shape, (*values, *[0.0] * 9)[j]) for shape in shapes]
            else:
                tensors = [make(10 * i + j, *shape, **kind) for i, shape in enumerate(shapes)]
            held = lists.get(name) if not any_sign else None
            left_out = name in absent and absent[name](chosen)
            columns.append([] if left_out else tensors if held is None else [held(t) for t in tensors])
        return (*columns, *(chosen[p] for p in arguments if p in plain))

    def case(name: str, given: Mapping[str, Any]) -> Case:
        chosen = {p: given.get(p, value) for p, value in plain.items()}
        how = {key: value for key, value in given.items() if key not in plain and key != "double"}
        return Case(op, name, lambda: step(chosen, **how), dtypes=DOUBLE if given.get("double") else ())

    found: dict[str, dict[str, Any]] = {}
    for values in product(*switches.values()) if switches else ():
        given = dict(zip(switches, values))
        on = "".join(f"_{p}" for p, value in given.items() if value)
        reversed_ = given.get("maximize", False)
        found[f"plain{on}"] = {"shapes": [(7, 11), (3,)], "double": not reversed_, **given}
        if not reversed_:
            found[f"special{on}"] = {"shapes": [(300,)], "special": True, "double": not on, **given}
    found |= {n: given for n, given in STEPS.items() if "lr" in plain or "lr" not in given}
    found |= {name: {**given, **most} for name, given in MOST_STEPS.items()}
    found["subnormal_hyperparameters"] = {"shapes": [(70,)], **most, **dict.fromkeys(numbers, 1e-40)}
    found |= {f"{p}_0": {"shapes": [(9,)], **most, p: 0.0} for p in numbers if p not in most and plain[p]}
    found |= {name: {**found.get(name, {}), **given} for name, given in cases.items()}
    return [case(name, given) for name, given in found.items()]


MAKERS: dict[str, Callable[..., list[Case]]] = {
    "binary": binary_cases,
    "formula": formula_cases,
    "glu": glu_cases,
    "loss": loss_cases,
    "pointwise": pointwise_cases,
    "step": step_cases,
    "unary": unary_cases,
    "written": lambda op: [],  # in the module of the family
}
"""The functions that make cases of an op, by the names in `CaseSpec`."""


def declared_cases(op: str) -> list[Case]:
    """The cases that an op declares, float32 ones."""
    spec = DECLARATIONS[op].cases
    return MAKERS[spec.maker](op, **spec.values)
