"""Glue of linear: the product of matmul.cu with a bias."""

from __future__ import annotations

import torch

from repdl_cuda.matmul import product


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, contract: str) -> torch.Tensor:
    return product(input, weight.t(), bias, (), contract)


OPS = {"linear": linear}
