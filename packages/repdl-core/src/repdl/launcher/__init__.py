"""`repdl run --ranks M`: a launcher of ranks of torch.distributed, which begins M of them from fewer processes.

Each rank is a process of its own, forked from one that has imported torch and RepDL and has computed nothing.
"""

from __future__ import annotations

from repdl.launcher.processes import launch

__all__ = ["launch"]
