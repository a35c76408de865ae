"""Cases of the elementwise ops: special values against each other, broadcasting, layouts."""

from __future__ import annotations

import numpy as np
import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import SPECIAL, uniform

EXACT = ("cos", "erf", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "tanh")
UNARY = ("abs", *EXACT, "neg", "reciprocal", "relu", "sign", "sqrt", "square")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")


def floats(*bits: int) -> torch.Tensor:
    """Float32 from their bit patterns."""
    return torch.from_numpy(np.array(bits, np.uint32).view(np.float32))


def _specials() -> torch.Tensor:
    return torch.tensor([*SPECIAL, 2.0, -1.0, -3.5, 3e38, -3e38, 1e-40, 0.1])


def _pairs() -> tuple[torch.Tensor, torch.Tensor]:
    x = _specials()
    return x.unsqueeze(1), x


def _same_shape() -> tuple[torch.Tensor, ...]:
    return tuple(torch.broadcast_tensors(*_pairs()))


# Arguments whose exact results lie closest to the midpoint of two floats, or at the ends
# of the range: a rounded double-precision libm result is wrong for the first five of log.
HARD = {
    "exp2": (
        0x3B429D37,
        0xBCF3A937,
        0x43000000,
        0x42FFFFFF,
        0xC3160000,
        0xC3160001,
        0xC315FFFF,
        0xC2FC0000,
        0xC2FC0001,
    ),
    "log10": (0x0EFEEE7A, 0x42C80000, 0x501502F9, 0x3F7FFFFF, 0x3F800001, 0x00000001, 0x7F7FFFFF),
    "log1p": (
        0xB53FFFFD,
        0x35400003,
        0xB70FFFE5,
        0x3710001B,
        0xBB0EC8C4,
        0x3EFD81AD,
        0x41078FEB,
        0x65D890D3,
        0x6F31A8EC,
        0xBF7FFFFF,
        0xBF800000,
        0xBF800001,
    ),
    "log2": (0x3F7FFFFF, 0x3F800001, 0x00000001, 0x7F7FFFFF, 0x41000000),
    "rsqrt": (0x3F7FFFFF, 0x3F800001, 0x00000001, 0x7F7FFFFF, 0x41800000),
    "erf": (0x407AD446, 0x407AD447, 0xC07AD447, 0x00000001, 0x807FFFFF, 0x3F800000, 0x39800000),
    "sin": (
        0x46199998,
        0xC6199998,
        0x3FC90FDB,
        0x40490FDB,
        0x49800000,
        0x49800001,
        0x7F7FFFFF,
        0x00000001,
        0xC9800001,
        0x5F19AF31,
    ),
    "cos": (
        0x5F18B878,
        0x6115CB11,
        0x7908CD73,
        0xF908CD73,
        0x3FC90FDB,
        0x40490FDB,
        0x49800000,
        0x49800001,
        0x7F7FFFFF,
        0x00000001,
        0xC9800001,
        0x5F19AF31,
    ),
    "expm1": (0x42B17217, 0x42B17218, 0xC18AA123, 0x33800000, 0xB3800000, 0x00000001, 0x807FFFFF, 0xBEB17218),
    "sigmoid": (
        0xBA928601,
        0x36180000,
        0xB61C0000,
        0x370E0000,
        0xB69E0000,
        0xC2CFF1B4,
        0xC2CFF1B5,
        0xC2AEAC4F,
        0x41851592,
    ),
    "tanh": (0x411102C6, 0xC1102CB4, 0x39800000, 0xB9FFFFFF, 0x00000001, 0x807FFFFF, 0x3F800000),
    "log": (
        0x3C413D3A,
        0x41178FEB,
        0x4C5D65A5,
        0x65D890D3,
        0x6F31A8EC,
        0x00000001,
        0x007FFFFF,
        0x7F7FFFFF,
        0x3F7FFFFF,
        0x3F800001,
    ),
    "exp": (
        0x42B17217,
        0x42B17218,
        0xC2CFF1B4,
        0xC2CFF1B5,
        0xC2AEAC4F,
        0xC2AEAC50,
        0x33800000,
        0xB3000000,
        0x00000001,
        0xBC5BDAB1,
    ),
}

# Arguments that a fast path of repdl-cpu would round wrongly if the margin, within which it leaves the
# decision to the exact function, were half as wide (of tanh a quarter, of rsqrt 1/256), on AVX-512 or AVX2.
MARGIN = {
    "cos": (0x40FCE5D1, 0x41D5431E, 0x41D545E9, 0x41D548C1, 0x4363B7B0, 0x3FD638E3, 0x4099A2CE, 0x412E5128, 0x425B884F),
    "erf": (
        0x3D80001C,
        0x3D8382D1,
        0x3D881380,
        0x3E367237,
        0xBD80001C,
        0xBD8382D1,
        0xBD881380,
        0xBE367237,
        0x3DE4697A,
        0x3DF397D3,
        0x3DFA3CAB,
        0x3DFDE10F,
        0xBDE4697A,
        0xBDF397D3,
        0xBDFA3CAB,
        0xBDFDE10F,
    ),
    "exp": (
        0x40A6015A,
        0xBC3257B6,
        0xBC38B1A0,
        0xBC3F25F8,
        0xBC44288A,
        0xBC500544,
        0xBCFF48FB,
        0xBE3C76D2,
        0x3E46E5D3,
        0x4101480B,
        0x4233C6F7,
        0xBCCF6020,
        0xBD7749B0,
        0xBD8E00D1,
        0xBF372FD0,
        0xC126B7BC,
    ),
    "exp2": (
        0x3F53D31B,
        0xBC808014,
        0xBC83C9BB,
        0xBD3562A9,
        0xBD3A3A35,
        0xBD46ACB4,
        0xBDE42344,
        0xBE2E5376,
        0x3F47F3DC,
        0x4071FCF7,
        0x412E60E7,
        0xBD00A3B0,
        0xBD19F6C8,
        0xBDC563CB,
        0xC0067C64,
        0xC1019F19,
    ),
    "expm1": (0x3C3573BD, 0x3C9F7805, 0x3CA0B7B0, 0x3CA21811, 0x3CB440AB, 0xBC976661, 0xBC9B3B82, 0xBCA8BF4E),
    "log": (
        0x3F59D315,
        0x3F71E0B0,
        0x3F7CE5A6,
        0x3F7EFBEF,
        0x3F824DAE,
        0x3F82AE4A,
        0x3F84CEB8,
        0x3F8D3040,
        0x3D148ACE,
        0x3F6A57DC,
        0x3F749FDF,
        0x3F7BF861,
        0x3F840A21,
        0x3F84EB19,
        0x3F8C3B12,
        0x3FA2F4F6,
    ),
    "log10": (
        0x3F7A560B,
        0x3F7E3247,
        0x3F7EC313,
        0x3F80F1BB,
        0x3F82BDE2,
        0x3F89E132,
        0x3E83FEE3,
        0x3F837E26,
        0x3F8BE50A,
    ),
    "log1p": (
        0x3C3A6781,
        0x3C6D9043,
        0x3C80C3D3,
        0xBC4B6355,
        0xBC8A42F9,
        0x3CE73020,
        0x3CFA0C6A,
        0xBCF50E1B,
        0xBEE808FB,
    ),
    "log2": (
        0x3F727ABD,
        0x3F72A5E3,
        0x3F7D0CA1,
        0x3F7F6130,
        0x3F80D759,
        0x3F81AE82,
        0x3E83A825,
        0x3F837B69,
        0x3F8BBDE2,
    ),
    "rsqrt": (0x0109F038, 0x107FFFFE, 0x207FFFFE, 0x307FFFFE, 0x407FFFFE, 0x5009F038, 0x6009F038, 0x7009F038),
    "sigmoid": (
        0xBC1C830E,
        0xBC3AF9C5,
        0xBD588E79,
        0xBFB5688D,
        0xC0520531,
        0xC0A34428,
        0xC0FF62A7,
        0xC131FD99,
        0xBC81CF12,
        0xBCCEA36E,
        0xBDD60B8B,
        0xBED220A2,
        0xC000CB9C,
        0xC06235AF,
        0xC0DE8FC6,
        0xC14AAF7E,
    ),
    "sin": (0x404607B0, 0x40460ABF, 0x417A7CE3, 0x43C452C0, 0x43F05B9D, 0x3DB77F34, 0x404E14B6, 0x40C64647, 0x43AE50DC),
    "tanh": (
        0x3B7F2A1A,
        0x3B969B38,
        0x3BAB6E65,
        0x3BB953BA,
        0x3BDFF26C,
        0x3C1B9680,
        0x3C25245C,
        0x3C4C74F8,
        0x3C2EA5DD,
    ),
}
MARGIN_2 = {"sigmoid": (0xBFC63EA6, 0xC0218194, 0xC09B9404, 0xC1032CD5, 0xBCB3ECFA, 0xBFBF08BC, 0xC017230E, 0xC129841C)}

CASES = [
    *(Case(op, "special", lambda: (_specials(),), dtypes=EVERY) for op in UNARY),
    *(Case(op, "values", lambda: (uniform(1, 1037, scale=4.0),), dtypes=EVERY) for op in UNARY),
    *(Case(op, "strided", lambda: (uniform(2, 30, 9)[::2, 1::3],), dtypes=EVERY) for op in UNARY),
    *(
        Case(op, "permuted", lambda: (uniform(2, 3, 4, 5).permute(2, 0, 1),), dtypes=DOUBLE)
        for op in ("exp", "relu", "sqrt")
    ),
    *(Case(op, "empty", lambda: (uniform(2, 0, 5),), dtypes=EVERY) for op in UNARY),
    *(Case(op, "dim_0", lambda: (uniform(2),), dtypes=DOUBLE) for op in UNARY),
    *(Case(op, "hard", lambda op=op: (floats(*HARD[op]),)) for op in HARD),
    *(Case(op, "margin", lambda op=op: (floats(*MARGIN[op]),)) for op in MARGIN),
    *(Case(op, "margin_2", lambda op=op: (floats(*MARGIN_2[op]),)) for op in MARGIN_2),
    Case("exp", "wide", lambda: (uniform(3, 1500, scale=128.0),)),
    *(Case(op, "wide", lambda: (uniform(3, 1500, scale=110.0),)) for op in ("expm1", "sigmoid")),
    Case("exp2", "wide", lambda: (uniform(3, 1500, scale=160.0),)),
    *(
        Case(op, "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // 500)),))
        for op in ("cos", "log10", "log1p", "log2", "rsqrt", "sin")
    ),
    Case("tanh", "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // 1500)),)),
    Case("log", "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // 1500)),)),
    *(Case(op, "special", _pairs, dtypes=EVERY) for op in BINARY),
    *(Case(op, "values", lambda: (uniform(1, 1037), uniform(2, 1037)), dtypes=EVERY) for op in BINARY),
    *(Case(op, "scalar_other", lambda: (uniform(1, 5, 7), torch.tensor(0.3)), dtypes=DOUBLE) for op in BINARY),
    *(Case(op, "scalar_input", lambda: (torch.tensor(0.3), uniform(1, 5, 7))) for op in BINARY),
    *(Case(op, "rows", lambda: (uniform(1, 5, 70), uniform(2, 70)), dtypes=EVERY) for op in ("add", "mul")),
    *(Case(op, "columns", lambda: (uniform(1, 5, 70), uniform(2, 5, 1)), dtypes=EVERY) for op in ("sub", "div")),
    *(Case(op, "outer", lambda: (uniform(1, 3, 1, 5, 1), uniform(2, 4, 1, 6)), dtypes=DOUBLE) for op in BINARY),
    *(Case(op, "transposed", lambda: (uniform(1, 9, 40).t(), uniform(2, 40, 9)), dtypes=EVERY) for op in BINARY),
    *(Case(op, "empty", lambda: (uniform(1, 0, 5), uniform(2, 5)), dtypes=EVERY) for op in BINARY),
    *(Case(op, "dim_0", lambda: (uniform(1), uniform(2)), dtypes=DOUBLE) for op in BINARY),
    Case("add", "not_wider", lambda: (torch.tensor([2.0**24, 1.0]), torch.tensor([1.0, 2.0**-24])), dtypes=DOUBLE),
    Case(
        "mul", "subnormal", lambda: (uniform(1, 200, scale=2.0**-100), uniform(2, 200, scale=2.0**-40)), dtypes=DOUBLE
    ),
    Case("square", "subnormal", lambda: (uniform(1, 200, scale=2.0**-66),), dtypes=DOUBLE),
    Case("reciprocal", "subnormal", lambda: (uniform(1, 200, scale=2.0**-126),), dtypes=DOUBLE),
    Case("div", "not_by_reciprocal", lambda: (torch.full((50,), 5.0), torch.arange(1.0, 51.0))),
    Case("relu_backward", "special", _same_shape, dtypes=EVERY),
    Case("relu_backward", "values", lambda: (uniform(1, 1037), uniform(2, 1037)), dtypes=EVERY),
    Case("relu_backward", "strided", lambda: (uniform(1, 9, 40).t(), uniform(2, 80, 18)[::2, ::2]), dtypes=EVERY),
    Case("relu_backward", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5)), dtypes=EVERY),
    Case("maximum_backward", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5), uniform(3, 0, 5)), dtypes=EVERY),
    Case("maximum_backward", "special", lambda: (uniform(1, 17, 17, special=True), *_same_shape()), dtypes=EVERY),
    Case("maximum_backward", "values", lambda: (uniform(1, 1037), uniform(2, 1037), uniform(3, 1037)), dtypes=EVERY),
]


def _some(seed: int, *shape: int) -> torch.Tensor:
    return uniform(seed, *shape) > 0


SEVERAL: dict[str, tuple[int, list[tuple[float, ...]]]] = {
    "add_alpha": (2, [(0.3,), (-2.0,)]),
    "addcdiv": (3, [(1.0,), (-0.7,)]),
    "addcmul": (3, [(1.0,), (0.1,)]),
    "clamp": (1, [(-0.3, 0.7), (0.5, -0.5), (float("-inf"), float("nan"))]),
    "clamp_backward": (2, [(-0.3, 0.7)]),
    "lerp": (2, [(0.3,), (1.5,)]),
    "lerp_tensor": (3, [()]),
}
"""Op -> the number of its tensors, and the numbers that follow them."""


def _of_several(op: str, tensors: int, i: int, numbers: tuple[float, ...]) -> list[Case]:
    """Cases with any operands; those of a backward op have one shape."""
    same = op.endswith("_backward")
    x = _specials()
    shapes = [(17, 1), (1, 17), (17, 1, 1)][:tensors]
    makes = {
        "special": lambda: [x.reshape(shape) for shape in shapes] if not same else [*_same_shape()][:tensors],
        "values": lambda: [uniform(1 + k, 1037) for k in range(tensors)],
        "strided": lambda: [uniform(1 + k, 30, 9)[::2, 1::3] for k in range(tensors)],
        "transposed": lambda: [uniform(1 + k, 9, 40).t() if k == 0 else uniform(1 + k, 40, 9) for k in range(tensors)],
        "outer": lambda: [uniform(1 + k, *((5, 7) if same else [(5, 7), (7,), (5, 1)][k])) for k in range(tensors)],
        "empty": lambda: [uniform(1 + k, 0, 5) for k in range(tensors)],
        "dim_0": lambda: [uniform(1 + k) for k in range(tensors)],
    }
    return [
        Case(op, f"{name}_{i}", lambda m=make: (*m(), *numbers), dtypes=EVERY if name in ("special", "values") else ())
        for name, make in makes.items()
    ]


CASES += [
    case
    for op, (n, kinds) in SEVERAL.items()
    for i, numbers in enumerate(kinds)
    for case in _of_several(op, n, i, numbers)
]
CASES += [
    Case("where", "special", lambda: (_some(1, 17, 17), *_pairs()), dtypes=EVERY),
    Case("where", "values", lambda: (_some(1, 1037), uniform(2, 1037), uniform(3, 1037)), dtypes=EVERY),
    Case("where", "strided", lambda: (_some(1, 40, 18)[:, ::2], uniform(2, 9, 40).t(), uniform(3, 40, 9))),
    Case("where", "one_condition", lambda: (torch.tensor(True), uniform(2, 5, 7), uniform(3, 7))),
    Case("where", "numbers", lambda: (_some(1, 5, 7), torch.tensor(0.3), torch.tensor(-0.0))),
    Case("where", "empty", lambda: (_some(1, 0, 5), uniform(2, 5), uniform(3, 0, 5))),
    Case("where", "dim_0", lambda: (torch.tensor(False), uniform(2), uniform(3))),
    Case(
        "add_alpha", "fused", lambda: (torch.tensor([-1.0, 2.0**24]), torch.tensor([1 + 2.0**-23, 1.0]), 1 - 2.0**-24)
    ),
]
