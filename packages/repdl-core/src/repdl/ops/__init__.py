"""Reproducible functions with the signatures of torch's functions of the same names.

Each takes `contract=` (a `repdl.Contract` or its name) beside torch's arguments. Ops of
other projects, registered through the entry-point group `repdl.ops`, are reached here
under their own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repdl.ops.activation import *
from repdl.ops.adam_step import *
from repdl.ops.adaptive_max_pool import *
from repdl.ops.addmm import *
from repdl.ops.amax import *
from repdl.ops.attention import *
from repdl.ops.avg_pool import *
from repdl.ops.batch_norm import *
from repdl.ops.bilinear import *
from repdl.ops.cast import *
from repdl.ops.cell import *
from repdl.ops.conv1d import *
from repdl.ops.conv2d import *
from repdl.ops.conv3d import *
from repdl.ops.conv_transpose import *
from repdl.ops.cov import *
from repdl.ops.cross_entropy import *
from repdl.ops.ctc_loss import *
from repdl.ops.diff import *
from repdl.ops.distance import *
from repdl.ops.distributions import *
from repdl.ops.dropout import *
from repdl.ops.einsum import *
from repdl.ops.elementwise import *
from repdl.ops.embedding_bag import *
from repdl.ops.embedding_losses import *
from repdl.ops.expand import *
from repdl.ops.formulas import *
from repdl.ops.gather import *
from repdl.ops.grid_sample import *
from repdl.ops.group_norm import *
from repdl.ops.grouped_mm import *
from repdl.ops.index_sum import *
from repdl.ops.interpolate import *
from repdl.ops.layer_norm import *
from repdl.ops.likelihoods import *
from repdl.ops.linear import *
from repdl.ops.linspace import *
from repdl.ops.local_response_norm import *
from repdl.ops.logsumexp import *
from repdl.ops.losses import *
from repdl.ops.lp_pool import *
from repdl.ops.lstsq import *
from repdl.ops.margins import *
from repdl.ops.matmul import *
from repdl.ops.matrix_norm import *
from repdl.ops.max import *
from repdl.ops.max_pool1d import *
from repdl.ops.max_pool2d import *
from repdl.ops.max_pool3d import *
from repdl.ops.max_unpool import *
from repdl.ops.nll_loss import *
from repdl.ops.norm import *
from repdl.ops.pad import *
from repdl.ops.pow import *
from repdl.ops.prod import *
from repdl.ops.products import *
from repdl.ops.qr import *
from repdl.ops.quantile import *
from repdl.ops.random import *
from repdl.ops.rectifiers import *
from repdl.ops.recurrent import *
from repdl.ops.remainder import *
from repdl.ops.rms_norm import *
from repdl.ops.rmsprop_step import *
from repdl.ops.scan import *
from repdl.ops.scatter import *
from repdl.ops.sgd_step import *
from repdl.ops.smooth import *
from repdl.ops.softmax import *
from repdl.ops.solve_triangular import *
from repdl.ops.sort import *
from repdl.ops.sum import *
from repdl.ops.ternary import *
from repdl.ops.trapezoid import *
from repdl.ops.unary import *
from repdl.ops.unfold import *
from repdl.ops.unique import *
from repdl.ops.var import *
from repdl.plugins import load


def __getattr__(name: str) -> Any:
    return load(name)


if not TYPE_CHECKING:  # which exports what is imported with *
    __all__ = sorted(
        name
        for name, value in list(vars().items())
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("repdl.ops.")
    )
