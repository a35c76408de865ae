"""How long the machine code of a kernel is, how many loads it has on their way at once, and how many instructions
on doubles: speed on paper.

A load waits for the memory where its result is first used. Loads that come before that use, with no
branch between them, are on their way at once; those of one iteration and the next are counted apart.

Instructions on doubles, which most GPUs execute at a 64th of the rate, are counted in the kernel itself: not in
what it calls, which lies behind it.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, fields

from audit import sass

_JOINT = re.compile(r"BRA|BRX|EXIT|RET|CALL|BAR|BSSY|BSYNC|WARPSYNC|SHFL")
_WIDTHS = {"64": 2, "128": 4}
"""Registers of a load wider than one."""


@dataclass(frozen=True)
class Counts:
    instructions: int
    loads: int
    """From global memory."""
    at_once: int
    """The most loads on their way at once."""
    bytes_at_once: int
    """The most bytes of a thread on their way at once."""
    doubles: int
    """Instructions on doubles, but those in what the kernel calls."""


_DOUBLE = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)|MUFU\.\w+64H|(F2F|I2F|F2I)\S*\.F64")
_CALLED = re.compile(r"CALL\.REL\S* 0x([0-9a-f]+)")
"""Other calls leave the kernel, as those of an assertion do."""
_BYTES = 16
"""Of an instruction."""


def _doubles(code: list[tuple[str, str]]) -> int:
    calls = (_CALLED.match(f"{opcode} {operands}") for opcode, operands in code)
    called = [int(call[1], 16) // _BYTES for call in calls if call]
    return sum(bool(_DOUBLE.match(opcode)) for opcode, _ in code[: min(called, default=None)])


def _registers(operands: str) -> set[int]:
    return {int(number) for number in re.findall(r"\bR(\d+)\b", operands)}


def _at_once(code: list[tuple[str, str]]) -> tuple[int, int]:
    """The most loads on their way, and the most bytes."""
    loads = bytes_loaded = most = most_bytes = 0
    awaited: set[int] = set()
    for opcode, operands in code:
        result, _, sources = operands.partition(",")
        used = _registers(operands if re.match("ST|RED|ATOM", opcode) else sources)
        if used & awaited or _JOINT.match(opcode):
            awaited, loads, bytes_loaded = set(), 0, 0
        if opcode.startswith("LDG"):
            width = next((count for name, count in _WIDTHS.items() if f".{name}" in opcode), 1)
            awaited |= {first + i for first in _registers(result) for i in range(width)}
            loads += 1
            bytes_loaded += 4 * width
            most, most_bytes = max(most, loads), max(most_bytes, bytes_loaded)
    return most, most_bytes


def counts(text: str) -> dict[str, Counts]:
    """Of each kernel in machine code of one architecture, by its name."""
    return {
        name: Counts(len(code), sum(opcode.startswith("LDG") for opcode, _ in code), *_at_once(code), _doubles(code))
        for name, code in sass.functions(text)
    }


def table(text: str) -> str:
    """The same as lines of a CSV file, by name."""
    columns = [field.name for field in fields(Counts)]
    rows = [f"{','.join(map(str, astuple(counted)))},{name}" for name, counted in sorted(counts(text).items())]
    return "\n".join([",".join([*columns, "kernel"]), *rows]) + "\n"
