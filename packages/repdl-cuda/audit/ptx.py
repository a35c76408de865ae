"""PTX: the authority on what is computed. Each addition and product must say how it is rounded.

A bare `add.f32` or `mul.f32` may be contracted to a fused multiply-add later, by ptxas or by
the driver; with -fmad=false nvcc writes `.rn` on all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_INSTRUCTION = re.compile(r"(?:^|;)[\s{]*(?:@!?%\w+\s+)?([a-z][a-z0-9_]*(?:[.:]+[A-Za-z0-9_]+)*)\s+(?=[^;]*;)")
_KERNEL = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_FLOAT = r"(?:f16|f16x2|bf16|bf16x2|tf32|f32|f32x2|f64|e\dm\d\w*)"
_ARITHMETIC = r"(?:add|sub|mul|fma|mad|div|rcp|sqrt)"

RULES = {
    r".*\.(approx|full)\b": "approximate",
    r".*\.ftz\b": "flushes subnormal numbers",
    rf"(atom|red)\b.*\.{_FLOAT}\b": "a float atomic: the order of its additions is not fixed",
    rf"(w?mma|wgmma|tcgen05)\b.*\.{_FLOAT}\b": "a float product on tensor cores",
    rf"{_ARITHMETIC}\b.*\.(f16|f16x2|bf16|bf16x2)\b": "arithmetic in a half format",
    rf"{_ARITHMETIC}\b.*\.(rz|rm|rp)\b.*\.(f32|f64)\b": "not rounded to nearest",
    rf"{_ARITHMETIC}\.(sat\.)?(f32|f32x2|f64)\b": "may be contracted: compile with --fmad=false",
    r"(min|max)\b.*\.(f32|f64)\b": "drops a NaN and orders zeros: write a comparison",
}
"""Opcode (matched from its beginning) -> what is wrong with it."""


def instructions(text: str) -> Iterator[tuple[str, str, int]]:
    """Kernel, opcode, number of the line: of each instruction."""
    kernel = "?"
    for number, line in enumerate(text.splitlines(), 1):
        if named := _KERNEL.search(line):
            kernel = named[1]
        for opcode in _INSTRUCTION.findall(line):  # a line of inline assembly may have several
            yield kernel, opcode, number


def violations(text: str) -> list[str]:
    """What PTX computes otherwise than the contract does."""
    return [
        f"ptx: {kernel}: line {number}: {opcode}: {reason}"
        for kernel, opcode, number in instructions(text)
        for rule, reason in RULES.items()
        if re.match(rule, opcode)
    ]


def _by_line(text: str, opcode: str) -> Counter[str]:
    """Source line -> how many instructions of this opcode it became."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "([^"]*)"', text, re.MULTILINE))
    found: Counter[str] = Counter()
    where = "?"
    for line in text.splitlines():
        if place := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", line):
            where = f"{Path(files[place[1]]).name}:{place[2]}"
        found[where] += sum(1 for found_here in _INSTRUCTION.findall(line) if re.fullmatch(opcode, found_here))
    return found


def plain_products(contracted: str, strict: str) -> list[str]:
    """Where the source has a product that is neither fma() nor mul(): the PTX of one source file,
    compiled with -fmad=true and with -fmad=false.

    The first has those products fused into additions (more fused instructions than the second), or
    without `.rn`, for ptxas to fuse.
    """
    fused = r"fma\.rn\.(f32|f64)"
    more = _by_line(contracted, fused) - _by_line(strict, fused)
    bare = _by_line(contracted, r"mul\.(f32|f64)")
    return [f"source: {place}: a plain product: write mul(a, b) or fma(a, b, c)" for place in sorted(more | bare)]
