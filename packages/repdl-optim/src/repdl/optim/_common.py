"""What all optimizers share: options that the contracts leave out, and steps that happen whole.

A step is planned first, as a list of calls of fused ops, and nothing is changed until
every call has passed its checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._compile import _disable_dynamo
from torch.optim import Optimizer

from repdl import registry
from repdl.dtypes.rounding import as_double
from repdl.errors import RepDLError, UnsupportedError, check_dtype
from repdl.ops.common import item
from repdl.ops.declare import DTYPES
from repdl.tensors.overlap import check_memory

Group = dict[str, Any]
State = dict[str, Any]
Span = tuple[torch.device, tuple[int, int, bool]]
"""Device of a contiguous tensor; its address, number of bytes, and whether it is written."""
_PLAIN = torch.Tensor, torch.nn.Parameter


@dataclass
class Call:
    """One call of a fused op: its name, its arguments in the order of the schema, and
    the state that each parameter gets once the call has succeeded.

    The first arguments are lists of tensors: parameters, gradients, then state. Of DTensors, such as the parameters
    that FSDP2 shards, the op gets the parts of this rank.
    """

    op: str
    args: tuple[Any, ...]
    state: list[tuple[torch.Tensor, State]] = field(default_factory=list)

    def __post_init__(self) -> None:
        params = self.args[0]
        if any(type(param) not in _PLAIN and hasattr(param, "to_local") for param in params):
            self.args = tuple(
                [_part(self.op, tensor, param) for tensor, param in zip(arg, params)] if isinstance(arg, list) else arg
                for arg in self.args
            )

    def check(self) -> None:
        """Raise what the call would raise for its arguments or for want of a backend."""
        registry.OPS[self.op].check(*self.args)
        registry.lookup(self.op, self.args[0][0].device.type)

    def run(self) -> None:
        getattr(registry.functions, self.op)(*self.args)

    def spans(self) -> Iterator[Span]:
        """Of the contiguous tensors."""
        for position, tensors in enumerate(arg for arg in self.args if isinstance(arg, list)):
            for tensor in tensors:
                if tensor.is_contiguous():
                    yield tensor.device, (tensor.data_ptr(), tensor.nbytes, position != 1)


def _part(op: str, tensor: Any, param: Any) -> torch.Tensor:
    """The part of this rank of a DTensor, which is shared as the parameter is; another tensor itself."""
    if not hasattr(tensor, "to_local"):
        return tensor
    if tensor.placements != param.placements:
        raise UnsupportedError(
            f"{op}: a gradient or a state has placements {tensor.placements}, expected {param.placements} (those of "
            f"its parameter); give it those first, by .redistribute(placements=parameter.placements)"
        )
    return tensor.to_local()


class ReproducibleOptimizer(Optimizer):
    """Mixed into an optimizer of torch before its class; takes the place of its `step`."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # torch's constructors set it with fused=True, and a GradScaler then leaves it to the step to unscale
        # gradients. Ours does not: the scaler is to do that before, as without fused.
        return False

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        pass

    def add_param_group(self, param_group: Group) -> None:
        """As torch's.

        Raises:
            UnsupportedError, DTypeError: if an option or a parameter is outside the
                contract; the group has not been added then.
        """
        super().add_param_group(param_group)
        try:
            self._check_options(self.param_groups[-1])
            for number, param in enumerate(self.param_groups[-1]["params"]):
                if param.requires_grad:
                    check_dtype(type(self).__name__, DTYPES, **{f"params[{number}]": param})
        except Exception:
            self.param_groups.pop()
            raise

    def _check_options(self, group: Group) -> None:
        for option in ("differentiable", "capturable"):
            if group.get(option):
                raise UnsupportedError(
                    f"{type(self).__name__}: {option}={group[option]} is not covered by the contract, expected False; "
                    f"for a loaded state dict, set it in optimizer.param_groups"
                )

    def _calls(self, group: Group) -> Iterable[Any]:
        """The calls, or what is like `Call`, that update the parameters of a group; must not change anything."""
        raise NotImplementedError

    @_disable_dynamo  # a step reads steps taken and addresses; compiled code calls it as it is
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step. If it raises, no parameter and no state has been changed.

        Args:
            closure: computes the loss and its gradients, with gradients enabled.

        Returns:
            What `closure` returned, or None without one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._check_options(group)
        calls = [call for group in self.param_groups for call in self._calls(group)]
        if len(calls) > 1 or not all(isinstance(call, Call) for call in calls):  # a single call of an op checks itself
            self._check_calls(calls)
        for call in calls:
            call.run()
            for param, entries in call.state:
                self.state[param].update(entries)
        return loss

    def _check_calls(self, calls: list[Any]) -> None:
        memory: dict[torch.device, list[tuple[int, int, bool]]] = {}
        for call in calls:
            call.check()
        for call in calls:
            for device, span in call.spans():
                memory.setdefault(device, []).append(span)
        for spans in memory.values():
            check_memory(type(self).__name__, spans)


class StepOptimizer(ReproducibleOptimizer):
    """An optimizer whose step is one op, on parameters with the same numbers, and which counts its steps.

    As torch does, steps are counted in a float32 tensor.
    """

    _op: ClassVar[str]
    _counts: ClassVar[tuple[str, ...]] = ("step",)
    """Entries of the state of a parameter that the numbers of its step follow from, tensors of one element."""
    _made_with: ClassVar[tuple[str, ...]] = ()
    """Options that the lists of the step follow from."""

    @classmethod
    def _lists(cls, group: Group) -> dict[str, bool]:
        """The lists of the op after the gradients, by their names in the state, and whether this group has them."""
        raise NotImplementedError

    @classmethod
    def _numbers(cls, group: Group, *counts: float) -> tuple[Any, ...]:
        """The arguments of the op after the lists."""
        raise NotImplementedError

    def _initial(self, group: Group, param: torch.Tensor) -> State:
        """The state of a parameter before its first step."""
        names = [name for name, there in self._lists(group).items() if there]
        zeros = {name: torch.zeros_like(param, memory_format=torch.preserve_format) for name in names}
        return {"step": torch.tensor(0.0, dtype=torch.float32), **zeros}

    def _next(self, group: Group, params: Sequence[torch.Tensor], names: Sequence[str]) -> list[State]:
        """The states of parameters with their steps counted; the entries of those names are still the old ones."""
        states = [self.state.get(param) or self._initial(group, param) for param in params]
        needed = {"step", *names}
        for param, state in zip(params, states):
            if not needed <= state.keys():
                self._raise_missing(group, param, state, [name for name in ("step", *names) if name not in state])
        steps = [state["step"] for state in states]
        counted: Sequence[Any]
        if steps and all(map(is_count, steps)):  # one call, of which a tensor for 1 saves most
            counted = torch._foreach_add(steps, torch.tensor(1.0, dtype=torch.float32, device="cpu"))
        else:
            counted = [step + 1 for step in steps]
        return [{"step": step, **{name: state[name] for name in names}} for step, state in zip(counted, states)]

    def _raise_missing(self, group: Group, param: torch.Tensor, state: State, missing: list[str]) -> None:
        made_with = [f"{option}={group[option]}" for option in self._made_with] or [type(self).__name__]
        raise RepDLError(
            f"{type(self).__name__}: the state of a parameter of shape {tuple(param.shape)} has no "
            f"{' and no '.join(missing)}, only {', '.join(map(str, state))}; "
            f"load a state dict that was made with {' and '.join(made_with)}"
        )

    def _calls(self, group: Group) -> Iterator[Call]:
        lists = self._lists(group)
        names = (*(n for n in self._counts if n != "step"), *(name for name, there in lists.items() if there))
        members: dict[tuple[Any, ...], list[tuple[torch.Tensor, State]]] = {}
        with_gradients = [param for param in group["params"] if param.grad is not None]
        for param, state in zip(with_gradients, self._next(group, with_gradients, names)):
            key = param.device, param.dtype, *(float(state[name]) for name in self._counts)
            members.setdefault(key, []).append((param, state))
        for (_, _, *counts), of in members.items():
            columns = [[state[name] for _, state in of] if there else [] for name, there in lists.items()]
            params = [param for param, _ in of]
            numbers = self._numbers(group, *counts)
            yield Call(self._op, (params, [param.grad for param in params], *columns, *numbers), of)


def is_count(step: Any) -> bool:
    """Whether a number of steps is such a tensor as `_initial` makes, and no integer or one on a GPU, from a state
    dict."""
    return isinstance(step, torch.Tensor) and step.dtype is torch.float32 and step.is_cpu


def is_plain(tensor: Any) -> bool:
    """Whether it is memory with strides, of a class that hides nothing."""
    return type(tensor) in _PLAIN and tensor.layout is torch.strided


def scalar(value: float | torch.Tensor) -> float:
    """A hyperparameter, which may be a tensor of one element, as a double (exactly)."""
    if type(value) is float:
        return value
    return as_double(item(value) if isinstance(value, torch.Tensor) else value)
