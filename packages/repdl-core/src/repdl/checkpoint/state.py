"""The state of a run: read from the objects that a program trains with, and put back into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from repdl.checkpoint import generators
from repdl.checkpoint.compare import Difference, Tree, differences
from repdl.checkpoint.sharded import meshes_of
from repdl.checkpoint.structure import JSON, Encoder, decode
from repdl.digest import digest
from repdl.errors import CheckpointError
from repdl.tensors.raw import dtype_name

KINDS = "model", "optimizer", "scheduler", "scaler", "sampler", "generator"
OF_MODELS = "buffers", "gradients"
"""What the state dict of a model does not have: buffers that are not persistent, and gradients."""
State = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """The objects of a run.

    Args:
        objects: those of each kind by name; one that is not in a mapping has the name "".
    """

    objects: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, **given: Any) -> Run:
        """From the arguments of `save` and `load`.

        Raises:
            CheckpointError: if one has no state.
        """
        objects: dict[str, Mapping[str, Any]] = {}
        for kind, value in given.items():
            if value is None:
                continue
            objects[kind] = dict(value) if isinstance(value, Mapping) else {"": value}
            for name, each in objects[kind].items():
                _check_object(kind, name, each)
        return cls(objects)

    def many(self) -> list[str]:
        """The kinds that are mappings."""
        return [kind for kind, named in self.objects.items() if "" not in named]

    def meshes(self) -> dict[str, Any]:
        """The meshes of DTensors."""
        return meshes_of(model for _, _, model in self.each("model"))

    def each(self, *kinds: str) -> Iterator[tuple[str, str, Any]]:
        """Kind, name and object."""
        for kind in kinds:
            for name, value in self.objects.get(kind, {}).items():
                yield kind, name, value


def _check_object(kind: str, name: str, value: Any) -> None:
    title = title_of(kind, name)
    if not isinstance(name, str):
        raise CheckpointError(f"checkpoint: {kind} has the key {name!r}, expected names")
    if kind == "generator":
        generators.get_state(title, value)
        return
    if isinstance(value, torch.utils.data.DataLoader):
        # Also one that has a state: when it goes on, it draws a seed from torch's generator once more.
        raise CheckpointError(
            f"checkpoint: {title} is {type(value).__name__}, expected repdl.checkpoint.Batches(loader), which counts "
            f"the batches that the training has seen and keeps the generators where they are"
        )
    wanted = torch.nn.Module if kind == "model" else object
    if not isinstance(value, wanted) or not all(hasattr(value, m) for m in ("state_dict", "load_state_dict")):
        thing = "a torch.nn.Module" if kind == "model" else "an object with state_dict and load_state_dict"
        raise CheckpointError(
            f"checkpoint: {title} is {type(value).__name__}, expected {thing}, or a mapping from names to such"
        )


def _state_dict(value: Any) -> dict[str, Any]:
    state: dict[str, Any] = value.state_dict()
    if isinstance(value, torch.optim.swa_utils.SWALR):
        return {name: each for name, each in state.items() if name != "anneal_func"}  # a function, in torch 2.6
    return state


def collect(run: Run, with_gradients: bool = True, with_samplers: bool = True, with_generators: bool = True) -> State:
    """The states of all objects and generators; tensors are those of the objects."""
    state: State = {}
    _add(state, run, "model", lambda model: model.state_dict())
    _add(state, run, "model", _transient, "buffers")
    if with_gradients:
        _add(state, run, "model", _gradients, "gradients")
    for kind in ("optimizer", "scheduler", "scaler", *(["sampler"] if with_samplers else [])):
        _add(state, run, kind, _state_dict)
    _add(state, run, "generator", lambda each: generators.get_state("generator", each))
    if with_generators:
        state["generators"] = generators.capture()
    return state


def _add(state: State, run: Run, kind: str, read: Callable[[Any], Any], section: str = "") -> None:
    named = {name: read(value) for name, value in run.objects.get(kind, {}).items()}
    if named:
        state[section or kind] = named.get("", named)


def _transient(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The buffers that the state dict of a model leaves out."""
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and name in module._non_persistent_buffers_set
    }


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@dataclass(frozen=True)
class Encoded:
    """A state as JSON, and its tensors by name."""

    tree: JSON
    tensors: Mapping[str, torch.Tensor]

    @classmethod
    def of(cls, state: State) -> Encoded:
        """A state, whose tensors are those of the objects."""
        encoder = Encoder()
        try:
            return cls(encoder.encode("", state), encoder.tensors)
        except RecursionError:
            raise CheckpointError("checkpoint: a state holds itself, expected nests without a cycle") from None

    def copied(self) -> Encoded:
        """The same with tensors of their own, in the memory of the CPU."""
        return Encoded(self.tree, {name: t.to("cpu", copy=True) for name, t in self.tensors.items()})

    def decoded(self, run: Run) -> State:
        """The values, with DTensors on the meshes of the models of a run."""
        state: State = decode(self.tree, self.tensors, run.meshes())
        return state

    def hashed(self) -> Tree:
        """For a comparison."""
        kept = {n: f"{dtype_name(t)}{list(t.shape)} {digest(t)}" for n, t in self.tensors.items()}
        return Tree(self.tree, kept)


def steps(run: Run, state: State, strict: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """What puts states into objects, one after the other, with its title; the generators come last."""
    for kind, name, value in run.each("model"):
        if kind in state:
            yield title_of(kind, name), partial(_set_model, value, name, state, strict)
    for kind, name, value in run.each("optimizer"):
        if kind in state:
            yield title_of(kind, name), partial(_set_optimizer, value, _of(state, kind, name))
    for kind, name, value in run.each("scheduler", "scaler", "sampler"):
        if kind in state:
            yield title_of(kind, name), partial(value.load_state_dict, _of(state, kind, name))
    for kind, name, value in run.each("generator"):
        if kind in state:
            yield title_of(kind, name), partial(generators.set_state, kind, value, _of(state, kind, name))
    if "generators" in state:
        yield "generators", partial(generators.restore, state["generators"])


def _set_model(model: torch.nn.Module, name: str, state: State, strict: bool) -> None:
    model.load_state_dict(_of(state, "model", name), strict=strict)
    _set_transient(model, _of(state, "buffers", name))
    _set_gradients(model, _of(state, "gradients", name) if "gradients" in state else {})


def _set_optimizer(optimizer: Any, state: State) -> None:
    """Also states in another dtype than their parameter, which torch converts."""
    optimizer.load_state_dict(state)
    if not isinstance(optimizer, torch.optim.Optimizer):
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    for number, parameter in zip(numbers, parameters):
        now = optimizer.state[parameter] if number in state["state"] else {}
        for name, kept in state["state"].get(number, {}).items():
            if isinstance(kept, torch.Tensor) and now[name].dtype != kept.dtype:
                now[name] = kept.to(now[name].device)


@dataclass(frozen=True)
class Backup:
    """The states of a run in memory of their own, for the case that others do not fit."""

    run: Run
    encoded: Encoded
    attributes: list[tuple[Any, dict[str, Any]]]

    @classmethod
    def of(cls, run: Run) -> Backup:
        """As they are. Samplers are not asked for a state, since that may begin an epoch; their attributes are kept."""
        others = [v for _, _, v in run.each("scheduler", "scaler", "sampler") if hasattr(v, "__dict__")]
        encoded = Encoded.of(collect(run, with_samplers=False)).copied()
        return cls(run, encoded, [(value, dict(vars(value))) for value in others])

    def restore(self) -> list[str]:
        """Put them back; returns the titles of those that could not be."""
        failed = []
        for title, step in steps(self.run, self.encoded.decoded(self.run), strict=True):
            try:
                step()
            except Exception:
                failed.append(title)
        for value, kept in self.attributes:
            vars(value).clear()
            vars(value).update(kept)
        return [title for title in failed if title.startswith(("model", "optimizer", "gen"))]


def title_of(kind: str, name: str) -> str:
    """What an object is called in messages."""
    return f"{kind}[{name!r}]" if name else kind


def _of(state: State, section: str, name: str) -> Any:
    """What a section has for an object."""
    return state[section][name] if name else state[section]


def _set_transient(model: torch.nn.Module, buffers: Mapping[str, torch.Tensor]) -> None:
    for path, kept in buffers.items():
        prefix, _, name = path.rpartition(".")
        module = model.get_submodule(prefix)
        now = module._buffers.get(name)
        if now is not None and now.shape == kept.shape and now.dtype == kept.dtype:
            with torch.no_grad():
                now.copy_(kept)
        else:
            module._buffers[name] = kept if now is None else kept.to(now.device)


def _set_gradients(model: torch.nn.Module, gradients: Mapping[str, torch.Tensor]) -> None:
    for name, parameter in model.named_parameters():
        kept = gradients.get(name)
        parameter.grad = None if kept is None else kept.to(parameter.device)


def first_wrong(run: Run, saved: Tree, strict: bool) -> Difference | None:
    """The first path where the objects have another state than the one that was put into them."""
    now = collect(
        run, "gradients" in _sections(saved), with_samplers=False, with_generators="generators" in _sections(saved)
    )
    for found in differences(saved, Encoded.of(now).hashed()):
        section = found.path.partition("/")[0]
        absent = found.a is None or found.b is None
        if section not in ("sampler", "extra") and (strict or not absent):
            return found
    return None


def _sections(tree: Tree) -> list[str]:
    return [key for key, _ in tree.json["dict"]]


__all__ = [
    "KINDS",
    "OF_MODELS",
    "Backup",
    "Encoded",
    "Run",
    "State",
    "collect",
    "first_wrong",
    "steps",
    "title_of",
]
