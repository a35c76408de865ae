"""Words of the stream, and integers made of them: no rounding anywhere.

The registered ops are what `repdl.random` is built of; they have no public functions of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.errors import check, check_dim
from repdl.ops.declare import draw

__all__: list[str] = []


PLANES = 65536
"""How many words a number has."""
MOST = 2**32
"""The longest permutation: the indices have a word on their way."""


def _check_words(plane: int) -> None:
    check("random_words", 0 <= plane < PLANES, lambda: f"plane is {plane}, expected 0 to {PLANES - 1}")


def _check_integers(low: int, high: int) -> None:
    check("random_integers", low < high, lambda: f"low is {low} and high is {high}, expected low < high")


draw("random_words", "int plane", check_options=_check_words, integers=torch.int32, family="random")
draw("random_integers", "int low, int high", check_options=_check_integers, integers=torch.int64, family="random")


def _check_permutation(like: Tensor) -> None:
    op = "random_permutation"
    check_dim(op, 1, like=like)
    check(op, like.numel() <= MOST, lambda: f"like has {like.numel()} elements, expected at most 2**32")


draw(
    "random_permutation",
    check_options=_check_permutation,
    integers=torch.int64,
    family="random",
)
