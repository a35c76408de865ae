"""What the glue of layer_norm, group_norm and rms_norm shares: rows of (batch, groups, channels, inner) contiguous."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import layout
from repdl.contract import Contract
from repdl.ops._optional import address, contiguous
from repdl_cuda.native import native, stream, workspace

Optional = torch.Tensor | None


def normalise(
    op: str,
    output: torch.Tensor,
    mean: Optional,
    rstd: torch.Tensor,
    input: torch.Tensor,
    weight: Optional,
    bias: Optional,
    sizes: Sequence[int],
    eps: float,
    contract: str,
) -> torch.Tensor:
    """`output`, which is written, as are mean and rstd. Without mean that is 0."""
    input, weight, bias = input.contiguous(), contiguous(weight), contiguous(bias)
    result = layout.row_major(output)
    chosen = Contract.parse(contract)
    native(input).norm_rows(
        op,
        input.data_ptr(),
        address(weight),
        address(bias),
        result.data_ptr(),
        address(mean),
        rstd.data_ptr(),
        sizes,
        eps,
        chosen.sum_lanes,
        chosen.sum_block,
        stream(input),
    )
    return layout.stored(result, output)


def gradients(
    op: str,
    output: torch.Tensor,
    grad_weight: torch.Tensor,
    grad_bias: Optional,
    grad: torch.Tensor,
    input: torch.Tensor,
    mean: Optional,
    rstd: torch.Tensor,
    weight: Optional,
    sizes: Sequence[int],
    contract: str,
) -> torch.Tensor:
    """`output`, the gradient of input, which is written, as are those of weight and, with mean, of bias."""
    grad, input, weight = grad.contiguous(), input.contiguous(), contiguous(weight)
    mean, rstd = contiguous(mean), rstd.contiguous()
    result = layout.row_major(output)
    chosen = Contract.parse(contract)
    batch, groups, channels, inner = sizes
    work = workspace(input, 2 * native(input).sum_work(groups * channels, batch * inner, chosen.sum_block))
    native(input).norm_rows_backward(
        op,
        grad.data_ptr(),
        input.data_ptr(),
        address(mean),
        rstd.data_ptr(),
        address(weight),
        result.data_ptr(),
        grad_weight.data_ptr(),
        address(grad_bias),
        work.data_ptr(),
        sizes,
        chosen.sum_lanes,
        chosen.sum_block,
        stream(input),
    )
    return layout.stored(result, output)
