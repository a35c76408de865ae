"""RepDL: deep learning whose results are the same bits on any machine.

`repdl.ops` are reproducible functions with the signatures of torch's, `repdl.nn` and
`repdl.optim` (separate distributions) the layers and optimizers built on them, and
`repdl.from_torch_module(model)` converts a model.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"

from repdl.settings.garbage import uncollected as _uncollected

with _uncollected(once=True):
    from repdl import ops, random, utils
    from repdl.audit import audit
    from repdl.contract import Contract, get_contract, set_contract, use_contract
    from repdl.digest import digest
    from repdl.errors import RepDLError, UnsupportedError
    from repdl.overrides import disable, enable, enabled
    from repdl.registry.backend import Backend, backends, set_backend, use_backend
    from repdl.settings.threads import get_num_threads, set_num_threads

_OPTIONAL = {
    "nn": "repdl-nn",
    "optim": "repdl-optim",
    "checkpoint": "repdl-core",
    "distributed": "repdl-core",
    "receipts": "repdl-core",
    "records": "repdl-core",
}

_OF_MODULES = {"from_torch_module": "nn", "receipt": "receipts", "record": "records"}
"""What parts have that `repdl` has too."""

if TYPE_CHECKING:
    from repdl import (
        checkpoint as checkpoint,
        distributed as distributed,
        nn as nn,
        optim as optim,
        receipts as receipts,
        records as records,
    )
    from repdl.nn import from_torch_module as from_torch_module
    from repdl.receipts import receipt as receipt
    from repdl.records import record as record
else:

    def __getattr__(name: str) -> Any:
        """Reach `repdl.nn`, `repdl.optim` and `repdl.from_torch_module` when installed, and parts used by few."""
        module = _OF_MODULES.get(name, name)
        if module not in _OPTIONAL:
            raise AttributeError(f"module 'repdl' has no attribute {name!r}")
        try:
            loaded = import_module(f"repdl.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"repdl.{module}":
                raise
            raise ModuleNotFoundError(
                f"repdl.{module} is not installed: pip install {_OPTIONAL[module]}", name=error.name
            ) from None
        return loaded if name == module else getattr(loaded, name)

    def __dir__() -> list[str]:
        """What there is, with what is reached when it is first asked for, for completion."""
        return sorted({*globals(), *_OPTIONAL, *_OF_MODULES})


__all__ = [
    "Backend",
    "Contract",
    "RepDLError",
    "UnsupportedError",
    "__version__",
    "audit",
    "backends",
    "digest",
    "disable",
    "enable",
    "enabled",
    "get_contract",
    "get_num_threads",
    "ops",
    "random",
    "set_backend",
    "set_contract",
    "set_num_threads",
    "use_backend",
    "use_contract",
    "utils",
]
