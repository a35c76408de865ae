"""What the glue of layer_norm, group_norm and rms_norm shares: rows of (batch, groups, channels, inner) contiguous."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.contract import Contract
from repdl.ops._optional import address, contiguous
from repdl_cuda.native import native, stream, workspace

Optional = torch.Tensor | None


def normalise(
    op: str, input: torch.Tensor, weight: Optional, bias: Optional, mean: Optional, rstd: torch.Tensor,
    sizes: Sequence[int], eps: float, contract: str,
) -> torch.Tensor:
    """The output; mean and rstd are written. Without mean it is 0."""
    input, weight, bias = input.contiguous(), contiguous(weight), contiguous(bias)
    output = torch.empty_like(input)
    chosen = Contract.parse(contract)
    native(input).norm_rows(
        op, input.data_ptr(), address(weight), address(bias), output.data_ptr(), address(mean), rstd.data_ptr(),
        sizes, eps, chosen.sum_lanes, chosen.sum_block, stream(input),
    )
    return output


def gradients(
    op: str, grad: torch.Tensor, input: torch.Tensor, mean: Optional, rstd: torch.Tensor, weight: Optional,
    shape: Sequence[int], sizes: Sequence[int], contract: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Those of input, weight and bias, the last two in `shape`; that of bias is not written without mean."""
    grad, input, weight = grad.contiguous(), input.contiguous(), contiguous(weight)
    mean, rstd = contiguous(mean), rstd.contiguous()
    output = torch.empty_like(input)
    grad_weight, grad_bias = (input.new_empty(shape) for _ in "wb")
    chosen = Contract.parse(contract)
    batch, groups, channels, inner = sizes
    work = workspace(input, 2 * native(input).sum_work(groups * channels, batch * inner, chosen.sum_block))
    native(input).norm_rows_backward(
        op, grad.data_ptr(), input.data_ptr(), address(mean), rstd.data_ptr(), address(weight), output.data_ptr(),
        grad_weight.data_ptr(), grad_bias.data_ptr(), work.data_ptr(), sizes,
        chosen.sum_lanes, chosen.sum_block, stream(input),
    )
    return output, grad_weight, grad_bias
