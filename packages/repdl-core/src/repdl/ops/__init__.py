"""Reproducible functions with the signatures of torch's functions of the same names.

Each takes `contract=` (a `repdl.Contract` or its name) beside torch's arguments. Ops of
other projects, registered through the entry-point group `repdl.ops`, are reached here
under their own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repdl.ops.activation.activation import *
from repdl.ops.activation.rectifiers import *
from repdl.ops.activation.smooth import *
from repdl.ops.activation.softmax import *
from repdl.ops.attention.attention import *
from repdl.ops.conv.conv1d import *
from repdl.ops.conv.conv2d import *
from repdl.ops.conv.conv3d import *
from repdl.ops.conv.conv_transpose import *
from repdl.ops.indexing.embedding_bag import *
from repdl.ops.indexing.expand import *
from repdl.ops.indexing.gather import *
from repdl.ops.indexing.index_sum import *
from repdl.ops.indexing.scatter import *
from repdl.ops.linalg.addmm import *
from repdl.ops.linalg.bilinear import *
from repdl.ops.linalg.cholesky import *
from repdl.ops.linalg.einsum import *
from repdl.ops.linalg.grouped_mm import *
from repdl.ops.linalg.linear import *
from repdl.ops.linalg.lstsq import *
from repdl.ops.linalg.lu import *
from repdl.ops.linalg.matmul import *
from repdl.ops.linalg.products import *
from repdl.ops.linalg.qr import *
from repdl.ops.linalg.solve import *
from repdl.ops.linalg.solve_triangular import *
from repdl.ops.losses.cross_entropy import *
from repdl.ops.losses.ctc_loss import *
from repdl.ops.losses.distance import *
from repdl.ops.losses.embedding_losses import *
from repdl.ops.losses.likelihoods import *
from repdl.ops.losses.losses import *
from repdl.ops.losses.margins import *
from repdl.ops.losses.nll_loss import *
from repdl.ops.normalization.batch_norm import *
from repdl.ops.normalization.group_norm import *
from repdl.ops.normalization.layer_norm import *
from repdl.ops.normalization.local_response_norm import *
from repdl.ops.normalization.rms_norm import *
from repdl.ops.optimizer_steps.adadelta_step import *
from repdl.ops.optimizer_steps.adagrad_step import *
from repdl.ops.optimizer_steps.adam_step import *
from repdl.ops.optimizer_steps.adamax_step import *
from repdl.ops.optimizer_steps.asgd_step import *
from repdl.ops.optimizer_steps.nadam_step import *
from repdl.ops.optimizer_steps.radam_step import *
from repdl.ops.optimizer_steps.rmsprop_step import *
from repdl.ops.optimizer_steps.rprop_step import *
from repdl.ops.optimizer_steps.sgd_step import *
from repdl.ops.pointwise.cast import *
from repdl.ops.pointwise.elementwise import *
from repdl.ops.pointwise.formulas import *
from repdl.ops.pointwise.linspace import *
from repdl.ops.pointwise.pow import *
from repdl.ops.pointwise.remainder import *
from repdl.ops.pointwise.ternary import *
from repdl.ops.pointwise.unary import *
from repdl.ops.pooling.adaptive_max_pool import *
from repdl.ops.pooling.avg_pool import *
from repdl.ops.pooling.lp_pool import *
from repdl.ops.pooling.max_pool1d import *
from repdl.ops.pooling.max_pool2d import *
from repdl.ops.pooling.max_pool3d import *
from repdl.ops.pooling.max_unpool import *
from repdl.ops.reduction.all_reduce import *
from repdl.ops.reduction.amax import *
from repdl.ops.reduction.cov import *
from repdl.ops.reduction.diff import *
from repdl.ops.reduction.logsumexp import *
from repdl.ops.reduction.matrix_norm import *
from repdl.ops.reduction.max import *
from repdl.ops.reduction.norm import *
from repdl.ops.reduction.prod import *
from repdl.ops.reduction.scan import *
from repdl.ops.reduction.sum import *
from repdl.ops.reduction.trapezoid import *
from repdl.ops.reduction.var import *
from repdl.ops.rnn.cell import *
from repdl.ops.rnn.recurrent import *
from repdl.ops.sampling.distributions import *
from repdl.ops.sampling.dropout import *
from repdl.ops.sampling.random import *
from repdl.ops.sorting.quantile import *
from repdl.ops.sorting.sort import *
from repdl.ops.sorting.unique import *
from repdl.ops.vision.grid_sample import *
from repdl.ops.vision.interpolate import *
from repdl.ops.vision.pad import *
from repdl.ops.vision.unfold import *
from repdl.registry.plugins import load


def __getattr__(name: str) -> Any:
    return load(name)


if not TYPE_CHECKING:  # which exports what is imported with *
    __all__ = sorted(
        name
        for name, value in list(vars().items())
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("repdl.ops.")
    )
