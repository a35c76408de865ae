"""Whether a backend puts outputs where the fake kernels say: `assert_layouts`."""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensorMode

from repdl.errors import DTypeError
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing.cases import cases
from repdl.testing.run import placed


def assert_layouts(backend: str) -> None:
    """Raise unless the outputs of every case with an operand that is not row-major have the fake ones' strides."""
    chosen = get_backend(backend)
    functions = implementations(chosen)
    count = 0
    for case in cases():
        args = placed(case.op, case.args(), chosen.device)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if case.op not in functions or all(t.is_contiguous() for t in tensors):
            continue
        try:
            real = functions[case.op](*args)
        except DTypeError:  # float64, where the backend has no kernel for it
            continue
        with FakeTensorMode() as mode:
            fake = OPS[case.op].overload(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
        if real is not None:
            for one, other in zip(*(r if isinstance(r, (tuple, list)) else (r,) for r in (real, fake))):
                seen, expected = ((t.shape, t.stride(), t.dtype) for t in (one, other))
                assert seen == expected, f"{backend}: {case}: {seen}, expected {expected}"
        count += 1
    assert count > 100, f"{backend}: {count} cases with other layouts, expected more than 100"
