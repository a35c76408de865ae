"""What a record notes: an op, a batch of data, the end of a step; as Python has them, and as lines of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LEVELS = ("step", "module", "op")
"""What a record may have, from the coarsest."""


@dataclass(frozen=True)
class Tensor:
    """Dtype, shape and digest of a tensor; of one that is read, too, which earlier entry made it."""

    dtype: str
    shape: tuple[int, ...]
    digest: str | None
    """16 hexadecimal digits; None if the elements can't be read (`meta`, quantised)."""
    maker: tuple[int, int] | None = None
    """The number of the entry, and which of its outputs."""
    strides: tuple[int, ...] | None = None
    """In elements; None if the tensor is contiguous."""
    sha256: str | None = None
    """64 hexadecimal digits, of records that have it."""

    def differs(self, other: Tensor) -> bool:
        """Whether the elements do, by what both records have of them."""
        both = self.sha256 is not None and other.sha256 is not None
        return self.digest != other.digest or (both and self.sha256 != other.sha256)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    def as_json(self) -> list[Any]:
        """For the file."""
        maker, strides = (None if pair is None else list(pair) for pair in (self.maker, self.strides))
        fields = [self.dtype, list(self.shape), self.digest, maker, strides, self.sha256]
        last = max((i for i, value in enumerate(fields) if value), default=0)
        return fields[: max(last + 1, 3)]

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> Tensor:
        """From the file."""
        dtype, shape, digest, *given = fields
        maker, strides, sha256 = (*given, None, None, None)[:3]
        maker, strides = (tuple(pair) if pair else None for pair in (maker, strides))
        return cls(dtype, tuple(shape), digest, maker, strides, sha256)


@dataclass(frozen=True)
class Entry:
    """One thing that a run did."""

    kind: str
    """`op`; `module`: a call of one; `data`: a batch of a DataLoader; `step`: an optimizer has made one."""
    name: str
    """The op with its overload, or the class of the module, loader or optimizer."""
    number: int
    step: int
    """How many steps optimizers have made before."""
    phase: str = ""
    """`forward`, `backward` or `optimizer`."""
    module: str = ""
    file: str = ""
    line: int = 0
    arguments: str = ""
    """Those that are no tensors; `_` is a tensor."""
    generator: str = ""
    """The digest of the state of torch's generator before it draws."""
    inputs: tuple[Tensor, ...] = field(default=())
    outputs: tuple[Tensor, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """For the file, without what is empty."""
        at = f"{self.file}:{self.line}" if self.file else ""
        texts = {
            "phase": self.phase, "module": self.module, "at": at, "args": self.arguments, "generator": self.generator,
        }  # fmt: skip
        made = {"kind": self.kind, "name": self.name, "n": self.number, "step": self.step}
        made |= {key: text for key, text in texts.items() if text}
        return made | {"in": [t.as_json() for t in self.inputs], "out": [t.as_json() for t in self.outputs]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Entry:
        """From the file."""
        file, _, line = fields.get("at", "").rpartition(":")
        return cls(
            fields["kind"], fields["name"], fields["n"], fields["step"], fields.get("phase", ""),
            fields.get("module", ""), file, int(line or 0), fields.get("args", ""), fields.get("generator", ""),
            tuple(map(Tensor.from_json, fields["in"])), tuple(map(Tensor.from_json, fields["out"])),
        )  # fmt: skip

    @property
    def place(self) -> str:
        """Step, phase, module and line, for people."""
        where = f" in {self.module}" if self.module else ""
        line = f", {self.file}:{self.line}" if self.file else ""
        return f"step {self.step}{f', {self.phase}' if self.phase else ''}{where}{line}"


__all__ = ["LEVELS", "Entry", "Tensor"]
