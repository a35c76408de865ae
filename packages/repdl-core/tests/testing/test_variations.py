"""Calls that differ from a sample of torch's database in one dtype or option: as torch, or refused."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.testing import opinfo, variations

pytest.importorskip("expecttest", reason="torch's database of ops needs it")

ON_PURPOSE = (
    ("ctc_loss", ".*", "gradient: beyond the bound", opinfo.reason("ctc_loss", "gradient: beyond the bound")),
    ("ctc_loss", ".*blank=1.*", "beyond the bound", "targets of the samples have a 1, which no target may be"),
    ("max_unpool.d", ".*", "gradient: .*", opinfo.reason("max_unpool1d", "gradient: beyond the bound")),
    (
        "pow",
        "tensor 0 of bfloat16",
        "beyond the bound",
        "an exponent of no dimensions is rounded to 16 bits, as in torch",
    ),
    ("topk", ".*sorted=False.*", "beyond the bound", "in any order in torch, sorted here"),
    (".*", ".*", "refused: .*", "the error says it"),
)
"""Patterns of functions, of variations and of differences, and why it is so."""


def reason(name: str, variation: str, difference: str) -> str:
    patterns = (name, variation, difference)
    return next((why for *ps, why in ON_PURPOSE if all(map(re.fullmatch, ps, patterns))), "")


def test_variations__as_torch() -> None:
    count, reasons = 0, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about what is deprecated
        for name in ops.__all__:
            agreed, found = variations.differences(name, 3)
            count += agreed
            for what, difference in sorted(found):
                why = reason(name, what, difference)
                assert why, f"{name}, {what}: {difference}"
                reasons.add(why)
    assert count > 2500
    assert reasons == {why for *_, why in ON_PURPOSE}


def test_variations__change_one_thing() -> None:
    sample = SimpleNamespace(input=torch.ones(2), args=(torch.ones(2),), kwargs={"reduction": "sum"})
    said = [v.what for v in variations.variations("hinge_embedding_loss", sample)]
    assert {"tensor 0 of float64", "tensor 1 of bfloat16", "margin=1.75", "no reduction"} <= {*said}
    assert "no reduction, margin=0.5" in said and "no reduction, reduction='none'" in said
    assert len(said) == len(set(said))


PLANTED = {
    "a dtype is lost": (lambda x, y, **options: ops.mul(x, y.to(x.dtype)), "mul", "tensor 1 of float64"),
    "an option is lost": (
        lambda x, beta=1.0, threshold=20.0: ops.softplus(x),
        "softplus",
        "no beta, beta=0.5",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_variations__see_what_is_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, op, what = PLANTED[name]
    assert variations.differences(op, 3)[1] == set()
    monkeypatch.setattr(opinfo, "function", lambda _: wrong)
    assert what in {changed for changed, _ in variations.differences(op, 3)[1]}


def test_variations__torch_says_nothing_of_what_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*args: Any, **kwargs: Any) -> Any:
        raise TypeError

    sample = SimpleNamespace(input=torch.ones(2), args=(), kwargs={})
    monkeypatch.setattr(opinfo, "entries", lambda name: [SimpleNamespace(op=raises)])
    monkeypatch.setattr(opinfo, "counterparts", lambda name: [raises])
    monkeypatch.setattr(opinfo, "samples", lambda info, dtype, most: [sample])
    assert variations.differences("softplus", 3) == (0, set())
