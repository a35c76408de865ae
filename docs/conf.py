"""The site: `nox -s docs` builds it into build/docs, and a warning is an error."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import repdl
from repdl.registry.families import families

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from builders import benchmarks, compiled, gallery  # noqa: E402

project = "RepDL"
author = "The RepDL developers"
copyright = author
release = version = repdl.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
html_theme = "furo"
html_title = f"RepDL {release}"
templates_path: list[str] = []
exclude_patterns = ["benchmarks/*/**", "gallery/**"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 90
autodoc_member_order = "alphabetical"
autosummary_generate = True
autosummary_ignore_module_all = False
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["myst.header"]


def write_pages(_app: Any) -> None:
    """A page for each contract text and each processor, the glossary and the architecture; pictures."""
    benchmarks.write(ROOT / "docs")
    compiled.write(ROOT / "docs")
    gallery.write(ROOT / "docs")
    into = ROOT / "docs/reference/contracts"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for family in families().values():
        text = family.text()
        if text is not None:
            (into / f"{family.name}.md").write_text(text)
    (ROOT / "docs/glossary.md").write_text((ROOT / "GLOSSARY.md").read_text())
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    (ROOT / "docs/architecture.md").write_text(architecture.replace("](docs/", "]("))


def link_sources(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """The lines *Contract* and *Source* of a docstring become links."""
    for index, line in enumerate(lines):
        line = re.sub(r"\bContract: (\w+) (v\d)\b", r"Contract: :doc:`\1 \2 </reference/contracts/\1>`", line)
        lines[index] = re.sub(r"\bSource: (https?://\S+)", r"Source: `\1 <\1>`__", line)


def setup(app: Any) -> None:
    """Pages are written before Sphinx looks for sources."""
    app.connect("config-inited", lambda app, _config: write_pages(app))
    app.connect("autodoc-process-docstring", link_sources)
