"""Tests of the tests: deliberately wrong backends must fail the parity checks.

Each wrong backend makes one mistake that a kernel writer could make. The cases of every
op that the mistake can touch have to show it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch

from repdl.reference import arithmetic
from repdl.reference.arithmetic import to_numpy, to_torch
from repdl.registry import OPS, implementations
from repdl.registry.backend import Backend, get_backend, register_backend, unregister_backend
from repdl.testing import ODD_CONTRACTS, Case, assert_same_bits, cases, check_parity, run_on

Function = Callable[..., Any]
Change = Callable[[torch.Tensor], torch.Tensor]

WHOLE = {"bernoulli", "bernoulli_scalar", "poisson", "random_integers", "random_permutation", "random_words"}
"""Draws of whole numbers."""
DRAWS = {op for op in OPS if OPS[op].host and OPS[op].differentiable is None} | {"bernoulli", "poisson"}
"""Ops that no value of a tensor but the position and probabilities reaches."""
NEVER_NAN = {"sign", "exponential", "truncated_normal", "uniform", *WHOLE}  # sign(NaN) is 0, as torch has it
# The results nearest to 0 are far from subnormal.
NEVER_SUBNORMAL = {
    *(
        "acos",
        "acosh",
        "cos",
        "cosh",
        "div_floor",
        "div_trunc",
        "hardsigmoid",
        "log",
        "log10",
        "log2",
        "log_softmax",
        "logit",
        "multilabel_margin_loss",
        "rsqrt",
        "sign",
        "root",
        "sqrt",
        "tanhshrink",
    ),
    *WHOLE,
}
# The results are equal, rounded: beside 1 (a margin of 1, too) or squared, a subnormal number is nothing.
SUBNORMAL_ARGUMENT_IS_ZERO = {
    *(
        "acos",
        "acosh",
        "cos",
        "cosh",
        "erfc",
        "exp",
        "exp2",
        "hardsigmoid",
        "huber",
        "huber_loss",
        "log_softmax",
        "mse_loss",
        "sigmoid",
        "smooth_l1",
        "smooth_l1_loss",
    ),
    *(
        "logsigmoid",
        "multilabel_margin_loss",
        "sinc",
        "softmax",
        "square",
        "sum_of_squares",
        "tanhshrink",
        "var",
        *DRAWS,
    ),
}


SINGLE = [case for case in cases() if not case.derived]
"""The cases whose kernels are float32: the mistakes here are made in those."""


def tensors(args: tuple[Any, ...], change: Change) -> tuple[Any, ...]:
    """The arguments, with `change` applied to each tensor, in lists too."""
    return tuple(
        [change(x) if isinstance(x, torch.Tensor) else x for x in a]
        if isinstance(a, list)
        else change(a)
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    )


def outputs(result: Any, change: Change) -> Any:
    """The result, with `change` applied to each of its tensors."""
    return tensors((result,), change)[0] if not isinstance(result, tuple) else tensors(result, change)


def negative_nan(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is not torch.float32:
        return x
    pattern = torch.where(x.isnan(), torch.tensor(0xFFC00000 - 2**32, dtype=torch.int32), x.view(torch.int32))
    return pattern.view(torch.float32)


def flush(x: torch.Tensor) -> torch.Tensor:
    small = (x.abs() < 2.0**-126) & (x != 0) if x.is_floating_point() else torch.tensor(False)
    return torch.where(small, x * 0.0, x) if small.any() else x


def ignore_strides(x: torch.Tensor) -> torch.Tensor:
    """What a kernel reads that takes the address and believes the memory to be row-major."""
    if x.is_contiguous():
        return x
    behind = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    strides, step = [], 1
    for size in reversed(x.shape):
        strides.insert(0, step)
        step *= size
    flat = torch.zeros(max(step, behind), dtype=x.dtype)  # reads past the end are zeros here
    flat[:behind] = x.as_strided((behind,), (1,), x.storage_offset())
    return flat.as_strided(x.shape, strides)


def reversed_dot(a: Any, b: Any, contract: Any) -> Any:
    return arithmetic.dot(a[::-1], b[::-1], contract)


def two_roundings(a: Any, b: Any, c: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(a * b + c, dtype=np.float32)


def left_to_right(parts: Any) -> Any:
    total = parts[0]
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            total = np.asarray(total + part, dtype=np.float32)
    return total


def padded_chunks(a: Any, b: Any, contract: Any) -> Any:
    """Every chain padded to a multiple of eight with zeros, as a wide kernel might."""
    pad = -len(a) % 8
    a, b = (np.concatenate([x, np.zeros((pad, *x.shape[1:]), np.float32)]) for x in (a, b))
    return arithmetic.dot(a, b, contract)


def matmul_with(dot: Function) -> dict[str, Function]:
    def matmul(input: torch.Tensor, mat2: torch.Tensor, transA: bool, transB: bool, contract: str) -> torch.Tensor:
        a, b = to_numpy(input), to_numpy(mat2)
        a = a.swapaxes(-1, -2) if transA else a
        b = b.swapaxes(-1, -2) if transB else b
        return to_torch(dot(np.moveaxis(a, -1, 0)[..., :, None], np.moveaxis(b, -2, 0)[..., None, :], contract))

    return {"matmul": matmul}


REFERENCE = implementations(get_backend("reference"))
NOT_IN_PLACE = {op for op in REFERENCE if not OPS[op].mutates}


@cache
def right(case: Case) -> Any:
    """What the reference gives, computed once for all mistakes."""
    return run_on(case, "v1", "reference")


def differs(case: Case, actual: Any) -> bool:
    """Whether the parity checks fail where a backend gives these outputs."""
    return are_others(actual, right(case))


def are_others(actual: Any, expected: Any) -> bool:
    try:
        assert_same_bits(actual, expected, "outputs")
    except AssertionError:
        return True
    return False


def differs_before(change: Change, case: Case) -> bool:
    """Whether they fail where the reference is given changed tensors."""
    args = case.args()
    seen = tensors(args, change)
    same = all(x is y for a, b in zip(args, seen) for x, y in (zip(a, b) if isinstance(a, list) else [(a, b)]))
    return not same and differs(case, REFERENCE[case.op](*seen))


def differs_after(change: Change, case: Case) -> bool:
    """Whether they fail where outputs are changed: the kernels', which equal the reference's and take less time."""
    found = run_on(case, "v1", "cpu")
    return are_others(outputs(found, change), found)


def unseen(mistake: Callable[[Case], bool], but: Collection[str] = ()) -> list[str]:
    """The ops beside `but` of which no case shows the mistake."""
    of_op: dict[str, list[Case]] = {op: [] for op in NOT_IN_PLACE.difference(but)}
    for case in SINGLE:
        if case.op in of_op:
            of_op[case.op].append(case)
    for mine in of_op.values():  # those that show most before the others
        mine.sort(key=lambda case: not case.name.startswith(("special", "subnormal")))
    return sorted(op for op, mine in of_op.items() if not any(map(mistake, mine)))


@pytest.fixture
def wrong() -> Iterator[Callable[[dict[str, Function]], dict[str, list[str]]]]:
    """`wrong(ops)`: what the parity checks say of a backend with these ops."""

    def check(ops: dict[str, Function]) -> dict[str, list[str]]:
        register_backend(Backend("wrong", "cpu", ops, priority=-1000))
        failed: dict[str, list[str]] = {}
        for case in SINGLE:
            if case.op in ops and differs(case, run_on(case, "v1", "wrong")):
                failed.setdefault(case.op, []).append(case.name)
        return failed

    yield check
    unregister_backend("wrong")


Check = Callable[[dict[str, Function]], dict[str, list[str]]]


def test_meta__the_reference_itself_passes(wrong: Check) -> None:
    """As the backend that the tests below put mistakes into: of ops that have one each."""
    assert wrong({op: REFERENCE[op] for op in ("cast", "conv2d", "linear", "matmul", "sum")}) == {}
    assert wrong(matmul_with(arithmetic.dot)) == {}


def test_meta__reversed_accumulation(wrong: Check) -> None:
    failed = wrong(matmul_with(reversed_dot))["matmul"]
    assert {"5x7x3", "17x33x65", "k_256", "k_257", "strided", "batched"} <= set(failed)


def test_meta__padded_chunks(wrong: Check) -> None:
    few = [f"few_rows_underflow_{rows}" for rows in (2, 3, 4)]
    assert wrong(matmul_with(padded_chunks))["matmul"] == ["one_row_underflow", *few, "underflow_keeps_sign"]


def test_meta__multiply_and_add_not_fused(wrong: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def dot(a: Any, b: Any, contract: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(arithmetic, "fma", two_roundings)
            return arithmetic.dot(a, b, contract)

    assert "fused_not_rounded_twice" in wrong(matmul_with(dot))["matmul"]


def test_meta__chunks_joined_left_to_right(wrong: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def dot(a: Any, b: Any, contract: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(arithmetic, "tree", left_to_right)
            return arithmetic.dot(a, b, contract)

    failed = wrong(matmul_with(dot))["matmul"]
    assert {"k_1025", "k_1793"} <= set(failed)
    assert not {"k_255", "k_256", "k_512", "k_768"} & set(failed), "two and three chunks have one order"


@pytest.mark.parametrize("kept", [0, 1])
def test_meta__contract_ignored(wrong: Check, kept: int) -> None:
    """A kernel with the order of v1 built in fails under each odd contract."""
    table = implementations(get_backend("reference"))
    ops = {op: (lambda *args, f=table[op]: f(*args[:-1], "v1")) for op in ("matmul", "sum", "linear", "conv2d")}
    wrong(ops)
    for op in ops:
        failures = 0
        for case in SINGLE:
            if case.op == op:
                try:
                    check_parity(case, "wrong", ODD_CONTRACTS[kept])
                except AssertionError:
                    failures += 1
        assert failures, f"{op}: no case shows the order of {ODD_CONTRACTS[kept]}"


def test_meta__negative_nan() -> None:
    missing = unseen(partial(differs_after, negative_nan), NEVER_NAN)
    assert not missing, f"no case of {missing} has a NaN in its output"


def test_meta__flush_to_zero() -> None:
    missing = unseen(partial(differs_after, flush), NEVER_SUBNORMAL)
    assert not missing, f"no case of {missing} has a subnormal output"


def test_meta__subnormal_arguments_as_zero() -> None:
    missing = unseen(partial(differs_before, flush), SUBNORMAL_ARGUMENT_IS_ZERO)
    assert not missing, f"no case of {missing} has a subnormal argument that counts"


def test_meta__halves_truncated(wrong: Check) -> None:
    """A cast that rounds to bfloat16 towards zero fails, and with it every op on halves."""
    right = implementations(get_backend("reference"))

    def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if dtype is torch.bfloat16 and x.dtype is torch.float32:
            return right["cast"]((x.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32), dtype)
        return right["cast"](x, dtype)

    failed = wrong({"cast": cast})["cast"]
    assert {"f32_bf16", "f32_bf16_ties", "values"} <= set(failed)
    register_backend(Backend("wrong", "cpu", {**get_backend("reference").ops, "cast": cast}, priority=-1000))
    for op in ("matmul", "softmax", "layer_norm", "sum", "exp", "conv2d"):
        halves = [case for case in cases(OPS[op].family) if case.op == op and case.derived is torch.bfloat16]
        with pytest.raises(AssertionError):
            for case in halves:
                check_parity(case, "wrong")


def test_meta__strides_ignored() -> None:
    missing = unseen(partial(differs_before, ignore_strides))
    assert not missing, f"no case of {missing} has an argument whose strides matter"
