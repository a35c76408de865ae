"""What has to hold before a state is put into the objects of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from repdl.checkpoint import generators
from repdl.checkpoint.format import Header
from repdl.checkpoint.state import KINDS, Run, State, title_of
from repdl.contract import get_contract
from repdl.errors import CheckpointError
from repdl.overrides.switch import is_enabled


def missing_and_surplus(run: Run, state: State) -> tuple[list[str], list[str]]:
    """Kinds or names of objects that the checkpoint lacks, and of states that no object was passed for."""
    saved = {(kind, name) for kind in KINDS if kind in state for name in _names(run, kind, state)}
    passed = {(kind, name) for kind, named in run.objects.items() for name in named}
    return _titles(passed - saved), _titles(saved - passed)


def _names(run: Run, kind: str, state: State) -> list[str]:
    return list(state[kind]) if kind in run.many() else [""]


def _titles(pairs: set[tuple[str, str]]) -> list[str]:
    return [title_of(kind, name) for kind, name in sorted(pairs)]


def check_kinds(path: Path, run: Run, header: Header) -> None:
    """Raise if one of them is a mapping and the other is not."""
    for kind in run.objects:
        many, was = kind in run.many(), kind in header.facts["many"]
        if many != was and any(key == kind for key, _ in header.tree["dict"]):
            form = ("one object", "a mapping from names to objects")
            raise CheckpointError(f"checkpoint: {kind} is {form[many]}, expected {form[was]} as in {path}")


def check_complete(path: Path, missing: list[str], surplus: list[str]) -> None:
    """Raise if the checkpoint has less or more than what is asked for.

    Raises:
        CheckpointError: with the states.
    """
    for titles, what, remedy in (
        (missing, "has no state of", "one that was saved with it, or strict=False, which leaves it as it is"),
        (surplus, "has states that nothing was passed for:", "these arguments, or strict=False, which ignores them"),
    ):
        if titles:
            raise CheckpointError(f"checkpoint: {path} {what} {', '.join(titles)}, expected {remedy}")


def check_settings(path: Path, facts: Mapping[str, Any]) -> None:
    """Raise if the run would go on by other rules than before.

    Raises:
        CheckpointError: with the rules.
    """
    contract = str(get_contract())
    if facts["contract"] != contract:
        raise CheckpointError(
            f"checkpoint: {path} is of the contract {facts['contract']}, and the process follows {contract}; expected "
            f"the same: repdl.set_contract({facts['contract']!r}), or strict=False"
        )
    if facts["enabled"] != is_enabled():
        was, wanted = ("with", "enable") if facts["enabled"] else ("without", "disable")
        raise CheckpointError(
            f"checkpoint: {path} was saved {was} repdl.enable(), which does not hold here as it did; expected "
            f"repdl.{wanted}() before, or strict=False"
        )


def check_objects(path: Path, run: Run, state: State, strict: bool) -> None:
    """Raise if a state does not fit its object, as far as that can be seen before anything changes.

    Raises:
        CheckpointError: with the path of what does not fit.
    """
    for kind, name, value in run.each("model", "optimizer"):
        if kind in state and (not name or name in state[kind]):
            saved = state[kind][name] if name else state[kind]
            title = f"{kind}/{name}" if name else kind
            (_check_model if kind == "model" else _check_optimizer)(path, title, value, saved, strict)
    if "generators" in state:
        generators.check(state["generators"])


def _check_model(path: Path, title: str, model: torch.nn.Module, saved: Mapping[str, Any], strict: bool) -> None:
    own = model.state_dict()
    absent = [f"{title}/{key}" for key in own if key not in saved]
    extra = [f"{title}/{key}" for key in saved if key not in own]
    if strict and (absent or extra):
        what = f"does not have {absent[0]}, which the model has" if absent else f"has {extra[0]}, which the model lacks"
        more = len(absent) + len(extra) - 1
        raise CheckpointError(
            f"checkpoint: {path} {what}{f' (and {more} more such names)' if more else ''}, expected the states of the "
            f"same model, or strict=False"
        )
    for key, mine in own.items():
        kept = saved.get(key)
        if isinstance(mine, torch.Tensor) and isinstance(kept, torch.Tensor):
            here, there = (f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (mine, kept))
            if here != there:
                raise CheckpointError(
                    f"checkpoint: {title}/{key} is {there} in {path}, expected {here} as in the model"
                )


def _check_optimizer(path: Path, title: str, optimizer: Any, saved: Mapping[str, Any], strict: bool) -> None:
    groups = getattr(optimizer, "param_groups", None)
    if groups is None or not isinstance(saved.get("param_groups"), list):
        return
    here, there = [len(g["params"]) for g in groups], [len(g["params"]) for g in saved["param_groups"]]
    if here != there:
        raise CheckpointError(
            f"checkpoint: {title} has groups of {there} parameters in {path}, expected {here} as the optimizer has"
        )


__all__ = [
    "check_complete",
    "check_kinds",
    "check_objects",
    "check_settings",
    "missing_and_surplus",
]
