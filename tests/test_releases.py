"""Every digest that a release recorded (golden cases, models, MNIST) is recorded in this tree, and is the same.

The archive is the history: a release is a tag, and what it recorded are its files.
"""

from __future__ import annotations

import json
import re
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
    elif isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        yield name, value


def recorded(release: str) -> dict[str, str]:
    """What the files of a tag have."""
    files = git("ls-tree", "-r", "--name-only", release, *FOLDERS).split()
    found: dict[str, str] = {}
    for file in files:
        if file.endswith(".json"):
            found.update(digests(json.loads(git("show", f"{release}:{file}")), Path(file).name))
    return found


def recorded_now() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.json")):
        found.update(digests(json.loads(file.read_text()), file.name))
    assert len(found) > 5000
    return found


def lost(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [f"{name}: {now.get(name)}, was {digest}" for name, digest in before.items() if now.get(name) != digest]


def test_releases__digests_stay() -> None:
    releases = git("tag", "--list", "v*", "--merged", "HEAD").split()
    if not releases:
        pytest.skip("this history has no release")
    now = recorded_now()
    for release in releases:
        changed = lost(recorded(release), now)
        assert not changed, f"{release}: {changed}"


def test_releases__control() -> None:
    now = recorded_now()
    if (ROOT / ".git").exists():
        assert recorded("HEAD").keys() <= now.keys()
    name = next(iter(now))
    assert lost(now, now) == []
    assert lost(now, {**now, name: "0" * 64}) == [f"{name}: {'0' * 64}, was {now[name]}"]
    assert lost({**now, "another case": "1" * 64}, now) == [f"another case: None, was {'1' * 64}"]
