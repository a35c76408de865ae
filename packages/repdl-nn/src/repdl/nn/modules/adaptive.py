"""AdaptiveLogSoftmaxWithLoss."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.adaptive import _ASMoutput

from repdl import ops
from repdl.errors import check, check_dim, check_range, check_size
from repdl.nn.modules.transformer import _Made


class AdaptiveLogSoftmaxWithLoss(_Made, torch.nn.AdaptiveLogSoftmaxWithLoss):
    """Log-probabilities of classes in clusters, and their mean loss: `(N, in_features), (N) -> (N), ()`.

    Or `(in_features), () -> (), ()`; float32 or 16-bit floats. A row reads the cluster of its target alone.

    Arguments and initialisation are those of `torch.nn.AdaptiveLogSoftmaxWithLoss`, and keywords `contract` and
    `generator`, of its parts too.

    Raises:
        ShapeError: if input and target do not fit together.
        OutOfRangeError: if a target is no class.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: softmax v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html
    """

    def forward(self, input_: torch.Tensor, target_: torch.Tensor) -> Any:
        """A named tuple: `output`, the log-probability of each target, and `loss`, minus its mean."""
        op, contract = type(self).__name__, self.contract
        check_dim(op, (0, 1), target=target_)
        check_dim(op, target_.dim() + 1, input=input_)
        input, target = (input_, target_) if target_.dim() else (input_.unsqueeze(0), target_.unsqueeze(0))
        check_size(op, "target.shape[0]", target.shape[0], input.shape[0], "input.shape[0]")
        check(op, target.numel() > 0, "target has no elements, expected one at least")
        low, high = (int(t) for t in target.aminmax())
        expected = f"0 to {self.n_classes - 1}"
        check_range(op, low >= 0 and high < self.n_classes, f"target is {low} to {high}, expected {expected}")
        index, rows = target.clone(), [(target < self.shortlist_size).nonzero().flatten()]
        found = [input.new_zeros(rows[0].shape[0])]
        for i, (first, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            of_cluster = ((target >= first) & (target < end)).nonzero().flatten()
            if of_cluster.numel() == 0:
                continue
            index[of_cluster] = self.shortlist_size + i
            inputs = ops.index_select(input, 0, of_cluster, contract=contract)
            logs = ops.log_softmax(self.tail[i](inputs), 1, contract=contract)
            local = (target[of_cluster] - first).unsqueeze(1)
            found.append(ops.gather(logs, 1, local, contract=contract).squeeze(1))
            rows.append(of_cluster)
        head = ops.log_softmax(self.head(input), 1, contract=contract)
        of_head = ops.gather(head, 1, index.unsqueeze(1), contract=contract).squeeze(1)
        of_tail = ops.index_select(torch.cat(found), 0, torch.cat(rows).argsort(stable=True), contract=contract)
        output = ops.add(of_tail, of_head, contract=contract)
        loss = ops.mean(ops.neg(output), contract=contract)
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: torch.Tensor, head_output: torch.Tensor) -> torch.Tensor:
        """Of all classes, `(N, n_classes)`, which `log_prob` and `predict` call."""
        head = ops.log_softmax(head_output, 1, contract=self.contract)
        shortlist, *clusters = head.split([self.shortlist_size, *[1] * self.n_clusters], 1)
        logs = [ops.log_softmax(tail(input), 1, contract=self.contract) for tail in self.tail]
        return torch.cat([shortlist, *(ops.add(t, h, contract=self.contract) for t, h in zip(logs, clusters))], 1)


__all__ = ["AdaptiveLogSoftmaxWithLoss"]
