"""The file of a receipt: an in-toto statement in a DSSE envelope, and the chain over the steps of a run.

Sources: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://github.com/secure-systems-lab/dsse/blob/master/envelope.md
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from repdl.errors import ReceiptError

PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:repdl:receipt:v1"
LEVEL = "re-executable: any machine"
"""What a receipt promises: whoever executes the program again, on whatever machine, gets the same chain."""


@dataclass(frozen=True)
class Step:
    """A step of an optimizer."""

    step: int
    optimizer: str
    """The name of its class."""
    which: int
    """Its number among the optimizers of the run, in the order of their first steps."""
    settings: str
    """The digest of the hyperparameters of its groups after the step: learning rates, weight decay and so on."""
    data: tuple[str, ...]
    """The digests of the batches that DataLoaders gave since the step before, in their order."""
    state: str | None
    """The digest of the parameters and of the optimizer's state after it; None but for each `every`-th step of the
    optimizer."""


@dataclass(frozen=True)
class Receipt:
    """What a run computed."""

    program: Sequence[str]
    """The program and its arguments, as `repdl run` takes them."""
    contract: str
    every: int
    """The number of steps of an optimizer between two digests of its state."""
    code: Mapping[str, str]
    """The SHA-256 of the program's files that ran, by their paths."""
    environment: Mapping[str, Any]
    """Where it ran; it changes no bit."""
    steps: Sequence[Step]
    final: str
    """The digest of the parameters and of the optimizers' states at the end."""
    chain: str
    """The last link of the chain."""
    signatures: int = 0
    """How many the envelope has."""


def links(program: Sequence[str], contract: str, every: int, steps: Iterable[Step]) -> list[str]:
    """The chain: a digest for the beginning and one for each step, over the one before and the step."""
    found = [sha256(_dumps([PREDICATE, list(program), contract, every]).encode()).hexdigest()]
    for step in steps:
        found.append(sha256((found[-1] + _dumps(asdict(step))).encode()).hexdigest())
    return found


def write(path: str | os.PathLike[str], receipt: Receipt) -> None:
    """Write a receipt, which nobody has signed.

    Raises:
        ReceiptError: if the file can't be written.
    """
    predicate = asdict(receipt) | {"level": LEVEL}
    del predicate["signatures"], predicate["final"]
    subject = [{"name": "parameters and state of optimizers", "digest": {"sha256": receipt.final}}]
    statement = {"_type": STATEMENT, "subject": subject, "predicateType": PREDICATE, "predicate": predicate}
    payload = base64.b64encode(_dumps(statement).encode()).decode()
    try:
        Path(path).write_text(_dumps({"payload": payload, "payloadType": PAYLOAD, "signatures": []}) + "\n")
    except OSError as error:
        raise ReceiptError(f"receipt: {path} can't be written: {error.strerror}") from error


def read(path: str | os.PathLike[str]) -> Receipt:
    """Read a receipt, whose chain is computed again.

    Raises:
        ReceiptError: if the file is none, or can't be read, or its chain is not that of its steps.
    """
    try:
        envelope = json.loads(Path(path).read_text())
        statement = json.loads(base64.b64decode(envelope["payload"], validate=True))
        if (envelope["payloadType"], statement["_type"], statement["predicateType"]) != (PAYLOAD, STATEMENT, PREDICATE):
            raise ValueError("another type of statement")
        fields = dict(statement["predicate"])
        fields.pop("level")
        steps = tuple(Step(**{**step, "data": tuple(step["data"])}) for step in fields.pop("steps"))
        final = statement["subject"][0]["digest"]["sha256"]
        found = Receipt(steps=steps, final=final, signatures=len(envelope["signatures"]), **fields)
    except OSError as error:
        raise ReceiptError(f"receipt: {path} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ReceiptError(f"receipt: {path} is no receipt of this version: {type(error).__name__}: {error}") from error
    if links(found.program, found.contract, found.every, found.steps)[-1] != found.chain:
        raise ReceiptError(f"receipt: {path} was edited: its chain is not that of its steps")
    if [step.step for step in found.steps] != [*range(len(found.steps))]:
        raise ReceiptError(f"receipt: {path} has steps that are not counted from 0")
    return found


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


__all__ = ["LEVEL", "PAYLOAD", "PREDICATE", "STATEMENT", "Receipt", "Step", "links", "read", "write"]
