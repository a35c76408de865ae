"""Every digest that a release recorded (golden cases, models, MNIST) is recorded in this tree, and is the same.

The archive is the history: a release is a tag, and what it recorded are its files.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = "packages/repdl-core/src/repdl/contract", "examples"
"""Of recorded digests, in JSON."""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"git {arguments[0]}: {done.stderr.strip()}")  # an sdist has no history
    return done.stdout


def digests(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """(name, digest) of all texts of 64 hexadecimal digits, by the keys that lead to them."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from digests(item, f"{name} {key}")
    elif isinstance(value, str) and len(value) == 64:
        yield name, value


def recorded(commit: str) -> dict[str, str]:
    files = git("ls-tree", "-r", "--name-only", commit, *FOLDERS).split()
    found: dict[str, str] = {}
    for file in files:
        if file.endswith(".json"):
            found.update(digests(json.loads(git("show", f"{commit}:{file}")), Path(file).name))
    return found


def lost(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [f"{name}: {now.get(name)}, was {digest}" for name, digest in before.items() if now.get(name) != digest]


def test_releases__digests_stay() -> None:
    now = recorded("HEAD")
    assert len(now) > 5000
    for release in git("tag", "--list", "v*", "--merged", "HEAD").split():
        changed = lost(recorded(release), now)
        assert not changed, f"{release}: {changed}"


def test_releases__control() -> None:
    now = recorded("HEAD")
    name = next(iter(now))
    assert lost(now, now) == []
    assert lost(now, {**now, name: "0" * 64}) == [f"{name}: {'0' * 64}, was {now[name]}"]
    assert lost({**now, "another case": "1" * 64}, now) == [f"another case: None, was {'1' * 64}"]
