"""SASS, the machine code: what ptxas must not have made of correct PTX.

Division and square root are correctly rounded sequences around an approximation (MUFU.RCP,
MUFU.RSQ, FCHK, fused multiply-adds, `.FTZ` where it changes nothing), and so are integer
divisions. Here they are told from a bare approximation by where its result goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FUNCTION = re.compile(r"^\s*(?:Function : |\.section\s+\.text\.)([\w$]+)", re.MULTILINE)
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", re.MULTILINE
)

RULES = {
    r"MUFU\.(?!RCP|RSQ)": "approximate",
    r"(RED|ATOM)\w*\..*\bADD\.(F16|BF16|F32|F64)": "a float atomic: the order of its additions is not fixed",
    r"(H|BF|D|F|Q|O)MMA\b|[HDQ]GMMA\b|UTC[HQOM]?\w*MMA\b": "a float product on tensor cores",
    r"(HMUL2|HFMA2|HADD2|HMNMX2)\b": "arithmetic in a half format",
    r"FFMA\..*FTZ": "flushes subnormal numbers",
    r"[FD]MNMX": "drops a NaN or orders zeros: write a comparison",
}
"""Opcode (matched from its beginning) -> what is wrong with it."""

LEGAL = (
    r"HFMA2(\.MMA)?(\.BF16(_V2)?)? \S+, -RZ, RZ, ",  # loads a constant
    r"HADD2\.F32 .*-RZ\b",  # a half becomes a float
    r"FMNMX\.NAN R\d+, R\d+(\.reuse)?, -?(?!0+(\.0*)?,)[\d.]+(e[+-]?\d+)?, !?PT$",  # x > 40 ? 40 : x, of a number but 0
)
_SEQUENCE = re.compile(r"MUFU\.(RCP|RSQ)|CALL")
"""Only beside these does ptxas write .FTZ: in the sequences of division and root, or before a call of one."""


def functions(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Name, and opcode and operands of each instruction."""
    parts = _FUNCTION.split(text)
    for name, body in zip(parts[1::2], parts[2::2]):
        if code := _INSTRUCTION.findall(body):
            yield name, code


def _registers(operands: str) -> list[str]:
    return re.findall(r"\bR\d+\b", operands)


def _bare_approximations(code: list[tuple[str, str]]) -> Iterator[str]:
    """MUFU.RCP and MUFU.RSQ whose first use is a product or a store; the first product of a root is FMUL.FTZ."""
    for i, (opcode, operands) in enumerate(code):
        if opcode not in ("MUFU.RCP", "MUFU.RSQ"):
            continue
        result = _registers(operands)[0]
        for later, theirs in code[i + 1 :]:
            if re.match(r"ST|BRA|RET|EXIT|CALL", later):
                used = later.startswith("ST") and result in _registers(theirs)
            else:
                used = result in _registers(theirs.partition(",")[2])
            plain = later.startswith("ST") or later == "FMUL" or (later == "FMUL.FTZ" and opcode == "MUFU.RCP")
            if used and plain:
                yield f"{opcode}: approximate, goes into {later}"
            if used or result in _registers(theirs)[:1] or re.match(r"RET|EXIT", later):
                break


def violations(text: str) -> list[str]:
    """What machine code computes otherwise than the contract does."""
    found = []
    for name, code in functions(text):
        sequences = any(_SEQUENCE.match(opcode) for opcode, _ in code)
        for opcode, operands in code:
            if any(re.match(legal, f"{opcode} {operands}") for legal in LEGAL):
                continue
            found += [f"sass: {name}: {opcode}: {reason}" for rule, reason in RULES.items() if re.match(rule, opcode)]
            if re.match(r"F(ADD|MUL|SETP|SET|MNMX)\b.*\.FTZ", opcode) and not sequences:
                found.append(f"sass: {name}: {opcode}: flushes subnormal numbers")
        found += [f"sass: {name}: {what}" for what in _bare_approximations(code)]
    return found
