"""Arguments for every registered op: those of its declaration, and one module a family, in a folder with families like it.

Golden bits, the parity of backends and `torch.library.opcheck` all run over these.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import walk_packages
from warnings import warn

from repdl.errors import BrokenPluginWarning
from repdl.registry import OPS
from repdl.registry.declaration import DECLARATIONS
from repdl.registry.families import Family, families
from repdl.testing.case import Case
from repdl.testing.dtypes import DOUBLE, EVERY, derived
from repdl.testing.generated import declared_cases

__all__ = ["DOUBLE", "EVERY", "Case", "cases", "with_derived", "written"]


def written(family: Family) -> list[Case] | None:
    """The cases of its module, float32 ones, and those of its declarations. What is wrong in the module is raised."""
    ops = [op.name for op in OPS.values() if op.family == family.name]
    declared = [case for op in ops if op in DECLARATIONS for case in declared_cases(op)]
    folder = f"{family.package}.testing.cases"
    try:
        path = import_module(folder).__path__
    except ModuleNotFoundError as error:
        if error.name is not None and f"{folder}.".startswith(f"{error.name}."):
            return declared or None
        raise
    for module in walk_packages(path, f"{folder}."):
        if not module.ispkg and module.name.rpartition(".")[2] == family.name:
            return [*import_module(module.name).CASES, *declared]
    return declared or None


def cases(family: str | None = None) -> list[Case]:
    """All cases of one family, or of every family, and after each those that other dtypes make of it.

    Of every family, those of installed plug-ins included, one whose cases cannot be loaded is
    left out with a `BrokenPluginWarning`; of one family, that error is raised.
    """
    if family is not None:
        return with_derived(written(families()[family]) or [])
    found: list[Case] = []
    for one in families().values():
        try:
            found += with_derived(written(one) or [])
        except Exception as error:
            warn(
                f"{one.distribution}: the cases of {one.name} failed to load: {error!r}",
                BrokenPluginWarning, stacklevel=2,
            )  # fmt: skip
    return found


def with_derived(given: Iterable[Case]) -> list[Case]:
    """Cases, and after each those that other dtypes make of it."""
    return [case for one in given for case in (one, *derived(one))]
