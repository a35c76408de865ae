"""`repdl checkpoint`: what is in the file of a checkpoint, and where two differ; `repdl digest` of others' files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from repdl.checkpoint.compare import diff
from repdl.checkpoint.containers import load_container, unequal
from repdl.checkpoint.folder import is_checkpoint, saved
from repdl.checkpoint.format import Header, read, read_header
from repdl.checkpoint.ranks import check_whole
from repdl.checkpoint.structure import JSON, children, is_leaf, join, shown
from repdl.digest import digest
from repdl.errors import CheckpointError
from repdl.utils import table


def show(path: Path, as_json: bool = False) -> int:
    """Names, shapes and digests, generators and the chain of a file, every byte of which is checked; 1 if it is
    damaged."""
    try:
        header, _ = read(path)
        check_whole(path)
    except CheckpointError as error:
        print(error, file=sys.stderr)
        return 1
    known = facts(path, header)
    if as_json:
        print(json.dumps(known, indent=2))
        return 0
    print("digest    {digest}".format(**known))
    for link in known["chain"]:
        print(f"went on from {link['digest']}  {link['path'] or '(not in this folder)'}")
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    rule = "under repdl.enable()" if known["enabled"] else "without repdl.enable()"
    print(f"saved {known['saved']}, contract {known['contract']}, {rule}, {versions}")
    print(f"generators {', '.join(known['generators'])}\n")
    print(
        table(
            [
                ("tensor", "", "digest"),
                *((t["name"], f"{t['dtype']}{t['shape']}", t["digest"]) for t in known["tensors"]),
            ]
        )
    )
    print()
    print(table([("other state", "value"), *((v["path"], v["value"]) for v in known["values"])]))
    return 0


def facts(path: Path, header: Header) -> dict[str, Any]:
    """What `repdl checkpoint show` shows."""
    when = datetime.fromtimestamp(header.facts["time"] // 10**9, timezone.utc)
    sections = dict(header.tree["dict"])
    entries = sorted(header.tensors.values(), key=lambda e: e.name)
    return {
        "path": str(path),
        "digest": header.digest,
        "chain": chain(path, header),
        "contract": header.facts["contract"],
        "enabled": header.facts["enabled"],
        "versions": header.facts["versions"],
        "saved": when.isoformat(),
        "generators": [name for name, _ in children(sections.get("generators", []))],
        "tensors": [{"name": e.name, "dtype": e.dtype, "shape": list(e.shape), "digest": e.digest} for e in entries],
        "values": [{"path": where, "value": value} for where, value in values(header.tree).items()],
    }


def chain(path: Path, header: Header) -> list[dict[str, str | None]]:
    """The checkpoints that it went on from, the last one first, as far as the folder has them."""
    known = {found.digest: (str(file), found) for file, found in saved(path.parent)}
    links: list[dict[str, str | None]] = []
    digest = header.previous
    while digest is not None and digest not in (link["digest"] for link in links):
        file, before = known.get(digest, (None, None))
        links.append({"digest": digest, "path": file})
        digest = before.previous if before else None
    return links


def values(tree: JSON, path: str = "") -> dict[str, str]:
    """The values that are no tensors, by their paths; long lists of numbers, such as those of a generator, as one."""
    if is_leaf(tree):
        is_tensor = type(tree) is dict and next(iter(tree)) in ("tensor", "ndarray")
        return {} if is_tensor else {path: shown(tree)}
    inside = children(tree)
    if len(inside) > 100 and all(type(value) is int for _, value in inside):
        return {path: f"{len(inside)} integers"}
    return {name: said for key, value in inside for name, said in values(value, join(path, key)).items()}


def compare(a: Path, b: Path, as_json: bool = False) -> int:
    """The first state path where two checkpoints, or those of two folders, differ; 1 if there is one."""
    try:
        found = diff(a, b)
        if a.is_file():
            digests = [read_header(path).digest for path in (a, b)]
    except CheckpointError as error:
        print(error, file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"a": str(a), "b": str(b), "differences": [asdict(each) for each in found]}, indent=2))
    elif not found:
        print(f"the same: {digests[0]}" if a.is_file() else "the same, in each checkpoint of a name")
    else:
        print(f"first difference: {found[0]}")
        print(f"{len(found)} paths differ")
    return 1 if found else 0


def digests(paths: Sequence[Path], with_tensors: bool = False, as_json: bool = False) -> int:
    """The digest of what each file or folder holds; 2 if one can't be read."""
    found: list[dict[str, Any]] = []
    for path in paths:
        try:
            if is_checkpoint(path):
                header = read_header(path)
                whole, parts = header.digest, {e.name: e.digest for e in header.tensors.values()}
            else:
                held = load_container(path)
                whole = digest(held)
                named = held.items() if with_tensors and isinstance(held, Mapping) else ()
                parts = {str(name): digest(value) for name, value in named}
        except (CheckpointError, TypeError) as error:
            print(f"repdl {error}" if isinstance(error, CheckpointError) else f"repdl {path}: {error}", file=sys.stderr)
            return 2
        found.append({"path": str(path), "digest": whole, **({"parts": parts} if with_tensors else {})})
    if as_json:
        print(json.dumps({"files": found}, indent=2))
        return 0
    for each in found:
        print(f"{each['digest']}  {each['path']}")
        for name, of_part in each.get("parts", {}).items():
            print(f"  {of_part}  {name}")
    return 0


def compare_containers(a: Path, b: Path, most: int, as_json: bool = False) -> int:
    """Which tensors of two files or folders differ, and how far; 1 if one does, 2 if they can't be read."""
    try:
        found = [*unequal(load_container(a), load_container(b))]
    except (CheckpointError, TypeError) as error:
        print(f"repdl {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"a": str(a), "b": str(b), "differences": [asdict(each) for each in found]}, indent=2))
        return 1 if found else 0
    for each in found[:most]:
        print(each)
    more = f", of which {most} are shown" if len(found) > most else ""
    print(f"{len(found)} path{'s differ' if len(found) > 1 else ' differs'}{more}" if found else "the same")
    return 1 if found else 0


__all__ = ["compare", "compare_containers", "digests", "show"]
