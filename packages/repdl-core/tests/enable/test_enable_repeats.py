"""`repdl.enable`: several values for one place, counts, and integers from whole numbers."""

from __future__ import annotations

import pytest
import torch
from enabling import same, values

import repdl
from repdl.errors import OutOfRangeError, UnsupportedError


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_enable__the_last_value_for_a_place_stays(dtype: torch.dtype) -> None:
    """As in a loop over the index, whatever the number of threads: there are enough rows for several."""
    index = repdl.random.randint(5, (3000, 9), generator=repdl.random.Generator(1))
    src, table = (values(3000, 11) * 99).to(dtype), (values(3001, 6) * 99).to(dtype)
    expected, slices = table.clone(), table.t().clone()
    for column in range(9):  # the later one over the earlier one
        expected[torch.arange(3000), index[:, column]] = src[:3000, column]
    for i, place in enumerate(index[0].tolist()):
        slices[place] = src.t()[i % 11, :1].expand(3001)
    given = torch.stack([src.t()[i, :1].expand(3001) for i in range(9)])
    with repdl.enabled():
        assert same(table.scatter(1, index, src), expected)
        assert same(table.clone().scatter_(-1, index, src), expected)
        out = torch.empty(0, dtype=dtype)
        torch.scatter(table, 1, index, src, out=out)
        assert same(out, expected)
        assert same(table.t().index_copy(0, index[0], given), slices)
        assert same(table.t().contiguous().index_copy_(0, index[0], given), slices)


def test_enable__a_derivative_that_sees_no_places_is_refused() -> None:
    index, table = torch.tensor([[0, 0, 1]]), torch.zeros(1, 4)
    src = torch.ones(1, 3, requires_grad=True)
    with repdl.enabled():
        with pytest.raises(UnsupportedError, match=r"aten.scatter.src.*test_enable_repeats.py.*several values"):
            table.scatter(1, index, src)
        table.scatter(1, torch.tensor([[2, 0, 1]]), src).sum().backward()
        with torch.no_grad():
            assert table.scatter(1, index, src * 2).tolist() == [[2, 2, 0, 0]]
        leaf = table.clone().requires_grad_()
        leaf.scatter(1, index, src.detach()).sum().backward()
    assert src.grad is not None and src.grad.tolist() == [[1, 1, 1]]
    assert leaf.grad is not None and leaf.grad.tolist() == [[0, 0, 1, 1]]


def test_enable__bad_places_are_torchs_errors() -> None:
    table = torch.zeros(2, 4)
    with repdl.enabled():
        for index, src in ((torch.tensor([[4, 0]]), torch.ones(1, 2)), (torch.zeros(3, 2).long(), torch.ones(3, 2))):
            with pytest.raises(RuntimeError):
                table.scatter(1, index, src)
        with pytest.raises((RuntimeError, IndexError)):
            table.index_copy(0, torch.tensor([2, 0]), torch.ones(2, 4))


def test_enable__counts_of_numbers() -> None:
    """Exact where torch's are, in each dtype: torch's have the same bounds."""
    whole = repdl.random.randint(9, (5000,), generator=repdl.random.Generator(2)).float()
    special = torch.tensor([0.0, 1.0, 2.0, 2.9, 3.0, 7.0, float("nan"), -1.0, float("inf")])
    calls = [(whole, 8, 0, 7), (whole, 9, 0, 0), (special, 4, 0, 3), (torch.ones(3), 3, 0, 0), (special[:0], 2, 0, 0)]
    for dtype in (torch.float32, torch.float64):
        for x, *rest in calls:
            expected = torch.histc(x.to(dtype), *rest)
            with repdl.enabled():
                assert same(torch.histc(x.to(dtype), *rest), expected)
    assert expected.tolist() == [0, 0]
    with repdl.enabled():
        with pytest.raises(OutOfRangeError, match="bins is 0"):
            torch.histc(whole, 0)
        with pytest.raises(OutOfRangeError, match="range is .*nan"):
            torch.histc(special, 3)
        with pytest.raises(UnsupportedError, match="histc"):
            torch.histc(whole.long(), 3)


def test_enable__integers_of_whole_numbers() -> None:
    with repdl.enabled():
        assert torch.arange(0, 8, 2.0, dtype=torch.int64).tolist() == [0, 2, 4, 6]
        with pytest.raises(UnsupportedError, match="arange: start is 0, end 8, step 2.5, expected integers"):
            torch.arange(0, 8, 2.5, dtype=torch.int64)
