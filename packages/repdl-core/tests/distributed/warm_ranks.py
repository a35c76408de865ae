"""What every rank needs, imported and found out once: the process from which ranks are forked imports this module.

Nothing is computed here: ranks choose threads and instructions themselves.
"""

import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp
import torch.distributed.optim
import torch.distributed.tensor.parallel
import torch.nn.parallel  # noqa: F401

import repdl.distributed
import repdl.testing  # noqa: F401
from repdl.overrides.switch import prepare

prepare()  # Dynamo too, which the first collective of a process imports, for a second
