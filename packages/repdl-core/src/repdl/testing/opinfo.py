"""Every function of `repdl.ops` on the samples of torch's own database of ops, against torch in float64.

`tools/coverage.py` writes what comes out into docs/coverage.md, a test looks at a part of it. A sample counts
as agreed if shapes, dtypes and integers are torch's, and every float lies within `BOUNDS`, as a part of the
largest element of the exact result, or of 1 if that is less: samples have few terms, none far above the others.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from repdl import ops, random
from repdl.errors import RepDLError

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

BOUNDS = MappingProxyType(
    {
        # dtype -> of results, of gradients. Of float32 and float64 2**11 units roundoff; of 16-bit floats 2, since a
        # result is rounded once, and 16 of a gradient, which is computed of rounded tensors.
        torch.float32: (2.0**-13, 2.0**-13),
        torch.float64: (2.0**-42, 2.0**-42),
        torch.bfloat16: (2.0**-8, 2.0**-5),
        torch.float16: (2.0**-11, 2.0**-8),
    }
)


REASONS = (
    ("refused: .*", ".*", "the error says it"),
    (".*takes no out=.*", ".*", "results are new tensors"),
    ("other integers", "argsort|sort|topk", "of equal elements torch's unstable sort takes any, RepDL the first"),
    ("other integers", "mode", "of equal elements torch takes any, RepDL the last"),
    ("beyond the bound", "multi_dot|chain_matmul|einsum", "each product is rounded to 16 bits, as torch does"),
    ("accepted, where torch says: .* n dims .*", ".*", "rows are made first, which have less dimensions"),
    ("raises RuntimeError, .*", "a?min|aminmax", "the number of dimensions, 64 at most"),
    ("raises RuntimeError, .*", "neg", "torch's own error, about bools"),
    ("gradient: beyond the bound", "logcumsumexp", "two samples in float64; the cause is not known yet"),
    ("gradient: beyond the bound", "cholesky_(solve|inverse)", "torch's derivative of the triangle that is not read"),
    ("gradient: beyond the bound", "hardsigmoid", "torch's derivative in float64 has 1 / 6 rounded to float32"),
    (
        "gradient: beyond the bound",
        "max_unpool[123]d",
        "of several elements for one place torch gives each the gradient, RepDL the one that is there",
    ),
    (
        "gradient: beyond the bound",
        "ctc_loss",
        "torch's derivative is that of logits whose log_softmax is given: equal through log_softmax, not alone",
    ),
    ("beyond the bound", "triplet_margin_with_distance_loss", "distances of one's own are rounded to 16 bits"),
    ("gradient: other NaN", "poisson_nll_loss", "torch's derivative by a target of 0 is NaN"),
    ("gradient: beyond the bound", "cov", "weights of the samples are float32, and so is their gradient"),
    ("gradient: beyond the bound", "addcmul|div", "a product of the derivative is rounded to 16 bits"),
    ("gradient: other infinities", "pow|tan", "a power in the derivative is beyond float16"),
)
"""Pattern of a difference, pattern of names, why it is so: the first that fits."""


def reason(name: str, difference: str) -> str:
    """Why a function differs in that way; empty if nobody has said it yet."""
    return next((r for d, n, r in REASONS if re.fullmatch(d, difference) and re.fullmatch(n, name)), "")


def plain(difference: str) -> str:
    """Without sizes and numbers of a sample, so that those that differ in one way are one."""
    text = re.sub(r"(?<![\w.])-?\d[\w.]*", "n", difference)
    text = re.sub(r"[(\[]n(, n)*,?[)\]]", "(...)", text)
    return text.replace("|", "/").replace("\n", " ")


@dataclass
class Count:
    """Of the samples of one function in one dtype: how many agree, and what the others do."""

    agreed: int = 0
    total: int = 0
    others: dict[str, int] = field(default_factory=dict)

    def add(self, difference: str | None) -> None:
        """Count a sample, and how it differs."""
        self.total += 1
        if difference is None:
            self.agreed += 1
        else:
            text = plain(difference)
            self.others[text] = self.others.get(text, 0) + 1

    def __str__(self) -> str:
        return f"{self.agreed}/{self.total}" if self.total else "-"


@functools.cache
def database() -> dict[str, list[Any]]:
    """Name in torch's database -> its entries, one a variant.

    Raises:
        ImportError: if torch's own tests can't be imported, which need expecttest and pytest.
    """
    frozen = torch.backends.disable_global_flags  # torch's module would freeze flags for all of the process
    torch.backends.disable_global_flags = lambda: None  # type: ignore[assignment]
    try:
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core
    finally:
        torch.backends.disable_global_flags = frozen
    for module in (common_utils, core):  # twice a sample they read the whole stack for a test of unittest, in vain
        module.extract_test_fn = lambda: None  # type: ignore[attr-defined]
    found: dict[str, list[Any]] = {}
    for info in op_db:
        found.setdefault(info.name, []).append(info)
    return found


def entries(name: str) -> list[Any]:
    """The entries of a function of `repdl.ops`: those of torch's functions of that name."""
    known = database()
    found = [*known.get(name, ()), *known.get(f"nn.functional.{name}", ())]
    return found or list(known.get(f"linalg.{name}", ()))


def counterparts(name: str) -> list[Any]:
    """torch's functions of that name, or else the method of tensors."""
    modules = (torch, torch.nn.functional, torch.linalg)
    found = [getattr(module, name) for module in modules if hasattr(module, name)]
    return found or [method for method in (getattr(torch.Tensor, name, None),) if method is not None]


class Skipped(Exception):
    """A sample that says nothing: numbers are drawn, or the entry does not call torch's function of that name."""


def function(name: str) -> Callable[..., Any]:
    """The function of `repdl.ops`; it raises `Skipped` where it has drawn numbers, which are others than torch's."""

    def call(*args: Any, **kwargs: Any) -> Any:
        before = random.default_generator.get_state()
        result = getattr(ops, name)(*args, **kwargs)
        if not torch.equal(before, random.default_generator.get_state()):
            raise Skipped(name)
        return result

    return call


class _Ours(TorchFunctionMode):
    """Calls of torch's function are calls of ours, however an entry of the database arranges its arguments."""

    def __init__(self, name: str) -> None:
        self.function, self.theirs = function(name), counterparts(name)
        self.reached = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(func is f for f in self.theirs):
            self.reached = True
            return self.function(*args, **(kwargs or {}))  # outside of this mode
        return func(*args, **(kwargs or {}))


def calls_directly(name: str, info: Any) -> bool:
    """Whether the arguments of an entry's samples are those of torch's function."""
    return any(info.op is f for f in counterparts(name))


def ours(name: str, info: Any) -> Callable[..., Any]:
    """The function of `repdl.ops` with the arguments of the entry's samples."""
    if calls_directly(name, info):
        return function(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        mode = _Ours(name)
        with mode:
            result = info.op(*args, **kwargs)
        if not mode.reached:
            raise Skipped(name)
        return result

    return call


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(mapped(change, v) for v in value) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {k: mapped(change, v) for k, v in value.items()}
    return change(value)


def fresh(value: Any) -> Any:
    """A leaf with the strides of the sample."""
    if not isinstance(value, torch.Tensor):
        return value
    leaf = value.detach()
    return leaf.requires_grad_(value.requires_grad) if value.is_floating_point() else leaf


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for v in value for t in tensors_of(v)]


def _cotangent(output: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).to(torch.bfloat16)  # the same in every dtype
    return weights.to(output.device, output.dtype).reshape(output.shape)


def gradients_of(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """None for an input that the outputs do not depend on."""
    wanted = [t for t in inputs if t.requires_grad]
    roots = [t for t in outputs if t.requires_grad]
    if not wanted or not roots:
        return []
    return [*torch.autograd.grad(roots, wanted, [_cotangent(t) for t in roots], allow_unused=True)]


def _differ(actual: torch.Tensor, exact: torch.Tensor, bound: float) -> str | None:
    """How a result differs from the exact one; None: it does not."""
    if actual.shape != exact.shape:
        return f"shape {tuple(actual.shape)} instead of {tuple(exact.shape)}"
    if exact.is_complex() and actual.is_complex():
        actual, exact = (torch.view_as_real(t.detach().resolve_conj()) for t in (actual, exact))
    if not exact.is_floating_point():
        return None if torch.equal(actual, exact) else "other integers"
    a, e = actual.detach().double(), exact.detach().to(actual.dtype).double()
    if not torch.equal(a.isnan(), e.isnan()):
        return "other NaN"
    ends = a.isinf() | e.isinf()
    if not torch.equal(a[ends], e[ends]):
        return "other infinities"
    if a.numel() == 0:
        return None
    error = (a - exact.detach().double()).masked_fill(ends, 0).nan_to_num().abs().max()
    largest = exact.detach().double().masked_fill(ends, 0).nan_to_num().abs().max()
    return None if error <= bound * max(1.0, float(largest)) else "beyond the bound"


def _differ_of_gradients(actual: torch.Tensor | None, exact: torch.Tensor | None, bound: float) -> str | None:
    if actual is None:
        return None if exact is None else "no gradient"
    return _differ(actual, torch.zeros_like(actual, dtype=torch.float64) if exact is None else exact, bound)


@dataclass(frozen=True)
class Outcome:
    """Of one sample: how the result and the gradient differ, None where they agree; `has_gradient` if there is one."""

    result: str | None
    gradient: str | None
    has_gradient: bool


@dataclass(frozen=True)
class Expected:
    """What torch gives for a sample: results and gradients in float64, None if it has none, and dtypes in its own."""

    results: list[torch.Tensor]
    gradients: list[torch.Tensor | None] | None
    dtypes: list[torch.dtype]


def expected(info: Any, sample: Any) -> Expected | None:
    """None where torch can't compute the sample in float64."""
    first, args, kwargs = mapped(_double, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    try:
        results = tensors_of(info.op(first, *args, **kwargs))
    except Exception:
        return None
    gradients: list[torch.Tensor | None] | None = None
    with suppress(Exception):
        gradients = gradients_of(results, tensors_of((first, args, kwargs))) or None
    try:
        with torch.no_grad():
            dtypes = [t.dtype for t in tensors_of(info.op(sample.input, *sample.args, **sample.kwargs))]
    except Exception:
        dtypes = []
    return Expected(results, gradients, dtypes)


def outcome(call: Callable[..., Any], sample: Any, exact: Expected, dtype: torch.dtype) -> Outcome | None:
    """What a function makes of a sample; None where it draws random numbers."""
    bound, bound_of_gradient = BOUNDS[dtype]
    first, args, kwargs = mapped(fresh, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    try:
        actual = tensors_of(call(first, *args, **kwargs))
    except RepDLError as error:
        return Outcome(f"refused: {error}", None, False)
    except Skipped:
        return None
    except Exception as error:
        return Outcome(f"{type(error).__name__}: {error}", None, False)
    if len(actual) != len(exact.results):
        return Outcome(f"{len(actual)} results instead of {len(exact.results)}", None, False)
    differences = (_differ(a, e, bound) for a, e in zip(actual, exact.results))
    result = next((d for d in differences if d is not None), None)
    if result is None:
        pairs = ((a.dtype, t) for a, t in zip(actual, exact.dtypes) if a.dtype != t)
        result = next((f"dtype {a} instead of {t}" for a, t in pairs), None)
    if exact.gradients is None or result is not None:
        return Outcome(result, None, False)
    try:
        grads = gradients_of(actual, tensors_of((first, args, kwargs)))
    except Exception as error:
        return Outcome(result, f"{type(error).__name__}: {str(error).splitlines()[0]}", True)
    if len(grads) != len(exact.gradients):
        return Outcome(result, "no gradient", True)
    differences = (_differ_of_gradients(a, e, bound_of_gradient) for a, e in zip(grads, exact.gradients))
    return Outcome(result, next((d for d in differences if d is not None), None), True)


def compare(call: Callable[..., Any], info: Any, sample: Any, dtype: torch.dtype) -> Outcome | None:
    """One sample; None where torch can't compute it in float64, or it draws random numbers."""
    exact = expected(info, sample)
    return None if exact is None else outcome(call, sample, exact, dtype)


def samples(info: Any, dtype: torch.dtype, most: int | None = None) -> Iterator[Any]:
    """The first samples of an entry, the same at each call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        with_gradients = info.supports_autograd and dtype.is_floating_point
        inputs = iter(info.sample_inputs("cpu", dtype, requires_grad=with_gradients))
        try:
            yield from itertools.islice(inputs, most)
        except Exception:  # some make no samples of a dtype that torch's op does not take
            return


def count(name: str, dtype: torch.dtype, most: int | None = None) -> tuple[Count, Count]:
    """Results and gradients of a function on its samples, or on `most` of each entry."""
    results, gradients = Count(), Count()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its samples
        for info in entries(name):
            call = ours(name, info)
            for sample in samples(info, dtype, most):
                outcome = compare(call, info, sample, dtype)
                if outcome is None:
                    continue
                results.add(outcome.result)
                if outcome.has_gradient:
                    gradients.add(outcome.gradient)
    return results, gradients


def count_errors(name: str) -> Count:
    """How many of the bad inputs of torch's database raise an error of RepDL's."""
    counted = Count()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in entries(name):
            if info.error_inputs_func is None:
                continue
            call = ours(name, info)
            for bad in info.error_inputs("cpu"):
                sample = bad.sample_input
                try:
                    call(sample.input, *sample.args, **sample.kwargs)
                except RepDLError:
                    counted.add(None)
                except Skipped:
                    continue
                except Exception as error:
                    no_out = "unexpected keyword argument 'out'" in str(error)
                    counted.add("takes no out=" if no_out else f"raises {type(error).__name__}, which is not RepDL's")
                else:
                    counted.add(f"accepted, where torch says: {bad.error_regex}")
    return counted


@dataclass(frozen=True)
class Difference:
    """One way in which a function differs from torch's: where (dtypes, or bad input), how many samples, and why."""

    where: tuple[str, ...]
    number: int
    what: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What the samples show of one function: dtype -> results and gradients, and bad input."""

    name: str
    dtypes: dict[str, tuple[Count, Count]]
    errors: Count

    def differences(self) -> list[Difference]:
        """Every way in which samples differ, the same one in several dtypes once."""
        found: dict[str, dict[str, int]] = {}
        for dtype, (results, gradients) in self.dtypes.items():
            for what, number in results.others.items():
                found.setdefault(what, {})[dtype] = number
            for what, number in gradients.others.items():
                found.setdefault(f"gradient: {what}", {})[dtype] = number
        for what, number in self.errors.others.items():
            found.setdefault(what, {})["bad input"] = number
        return [
            Difference(tuple(where), sum(where.values()), what, reason(self.name, what))
            for what, where in found.items()
        ]


def report(name: str, most: int | None = None, dtypes: Sequence[torch.dtype] = DTYPES) -> Report:
    """What the samples show of a function, or `most` of each entry."""
    counts = {str(dtype).removeprefix("torch."): count(name, dtype, most) for dtype in dtypes}
    return Report(name, counts, count_errors(name))
