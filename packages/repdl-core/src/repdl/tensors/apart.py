"""How far two tensors of one dtype and shape are apart, where equality has said that they differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from repdl.tensors.raw import raw_bytes


@dataclass(frozen=True)
class Apart:
    """The elements whose bits differ."""

    count: int
    elements: int
    ulp: int | None
    """The largest distance, in units in the last place of the dtype: how many numbers lie between, and one. None for
    integers, and where each pair that differs has a NaN."""
    nans: int
    """Pairs of which one is NaN, or both with other bits."""
    index: tuple[int, ...]
    """Of the largest distance; without one, of the first pair that differs."""
    a: str
    b: str
    """The elements there."""

    def text(self, a: str = "in a", b: str = "in b") -> str:
        """For people, with words for where the two tensors are."""
        many = f"{self.count} of {self.elements} elements differ"
        far = "" if self.ulp is None else f", by {self.ulp} ulp at most"
        nans = f", {self.nans} of them NaN" if self.nans else ""
        return f"{many}{far}{nans}: at {list(self.index)} {self.a} {a}, {self.b} {b}"


def apart(a: torch.Tensor, b: torch.Tensor) -> Apart | None:
    """How far two tensors are apart, None if their bits are the same.

    Args:
        a, b: of one dtype and shape; a complex number is two elements.
    """
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    words = [np.frombuffer(raw_bytes(tensor), dtype=f"<u{a.element_size()}") for tensor in (a, b)]
    differ = np.flatnonzero(words[0] != words[1])
    if not len(differ):
        return None
    ulp, nans, first = None, 0, int(differ[0])
    if a.is_floating_point():
        isnan = (a.isnan() | b.isnan()).reshape(-1).numpy()[differ]
        nans, numbers = int(isnan.sum()), differ[~isnan]
        if len(numbers):
            low, high = np.sort([_in_order(word[numbers]) for word in words], axis=0)
            first, ulp = int(numbers[(high - low).argmax()]), int((high - low).max())
    shown = (_shown(tensor.reshape(-1)[first]) for tensor in (a, b))
    index = tuple(map(int, np.unravel_index(first, tuple(a.shape))))
    return Apart(len(differ), a.numel(), ulp, nans, index, *shown)


def _shown(element: torch.Tensor) -> str:
    """An element, with as many digits as tell it from its neighbours."""
    digits = {8: 17, 4: 9}.get(element.element_size(), 5)
    return f"{element.item():.{digits}g}" if element.is_floating_point() else str(element.item())


def _in_order(words: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats that have these bits; of neighbours they differ by one."""
    bits = 8 * words.dtype.itemsize
    wide = words.astype(np.uint64)
    sign, every = np.uint64(1 << (bits - 1)), np.uint64((1 << bits) - 1)
    return np.where(wide & sign, ~wide & every, wide | sign)


__all__ = ["Apart", "apart"]
