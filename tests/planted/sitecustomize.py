"""One file of Python is imported with a mistake in it (test_planted.py), named by REPDL_PLANTED.

Python imports this at its start, in the processes that tests start too.
"""

from __future__ import annotations

import json
import os
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[2]


def install(file: str, edits: dict[str, str]) -> None:
    """Import `file`, a path from the root of the repository, with the edits."""
    spec = spec_from_file_location("planted", ROOT / "packages/repdl-core/src/repdl/testing/planted.py")
    assert spec is not None and spec.loader is not None
    planted = module_from_spec(spec)  # not by its name, which would import repdl
    spec.loader.exec_module(planted)
    before: Any = SourceFileLoader.get_code
    wanted = file.partition("/src/")[2]

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if not self.path.endswith(f"/{wanted}"):  # in this checkout, or installed
            return before(self, fullname)
        return compile(planted.plant(Path(self.path).read_text(), edits, file), self.path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


if "REPDL_PLANTED" in os.environ:
    install(*json.loads(os.environ["REPDL_PLANTED"]))
