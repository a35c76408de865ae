"""What an index and a user get of each distribution: metadata, files, and an sdist's own tests."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
from trove_classifiers import classifiers

import repdl
from repdl.testing.oracle import FOLLOWED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGES = {path.name: path for path in sorted((ROOT / "packages").iterdir())}
PROJECTS: dict[str, dict[str, Any]] = {
    name: tomllib.loads((path / "pyproject.toml").read_text())["project"] for name, path in PACKAGES.items()
}
RECIPE = ROOT / "conda/recipe.yaml"
DISTRIBUTIONS = {"audit": "", "repdl_contract": "repdl-core"}
"""Import name -> distribution, where they differ; "" is the package's own."""
by_package = pytest.mark.parametrize("name", PACKAGES)


def requirements(name: str, *extras: str) -> list[str]:
    project = PROJECTS[name]
    return [*project["dependencies"], *(r for e in extras for r in project.get("optional-dependencies", {})[e])]


def distribution(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0]


def sources(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.py") if "native" not in path.parts)


def imported(path: Path) -> set[str]:
    """The distributions that a file imports at its top level, or in a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "repdl":
            names.add(f"repdl.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    found = set()
    for full in names:
        top, *rest = full.split(".")
        if top == "repdl":
            part = rest[0] if rest else ""
            found.add({"nn": "repdl-nn", "optim": "repdl-optim"}.get(part, "repdl-core"))
        elif top not in sys.stdlib_module_names:
            found.add(DISTRIBUTIONS.get(top, top.replace("_", "-")))
    return found - {"", "setuptools"}


def test_packages__the_oldest_torch_is_tested() -> None:
    """The session tests-oldest installs what the packages say they take."""
    (oldest,) = re.findall(r'OLDEST_TORCH = "torch==([\d.]+)\.\*"', (ROOT / "noxfile.py").read_text())
    bounds = {r for name in PACKAGES for r in PROJECTS[name]["dependencies"] if distribution(r) == "torch"}
    assert bounds == {f"torch>={oldest}"}
    (pinned,) = re.findall(r"^torch==(\d+)\.(\d+)\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert tuple(map(int, pinned)) == FOLLOWED


def test_packages__one_version_and_one_bound() -> None:
    """Every package needs the others in the same way: this release and what keeps its promises."""
    (version,) = {project["version"] for project in PROJECTS.values()}
    assert version == repdl.__version__
    for name in ("cpu", "cuda"):
        text = (PACKAGES[f"repdl-{name}"] / f"src/repdl_{name}/__init__.py").read_text()
        assert re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE) == [version]
    config = ROOT / "packages/repdl-core/src/repdl_contract/cmake/repdl_contractConfigVersion.cmake"
    assert f"set(PACKAGE_VERSION {version})" in config.read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n  version: {version}\n" in RECIPE.read_text()
    major, minor = map(int, version.split(".")[:2])
    ours = f">={major}.{minor},<{major}.{minor + 1}"
    found: dict[str, set[str]] = {}
    for name, project in PROJECTS.items():
        for requirement in requirements(name, *project.get("optional-dependencies", {})):
            found.setdefault(distribution(requirement), set()).add(requirement[len(distribution(requirement)) :])
    assert {found[name] == {ours} for name in found if name.startswith("repdl-")} == {True}, found
    assert all(len(bounds) == 1 for bounds in found.values()), found


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "repdl-cuda"])
def test_packages__the_conda_recipe_needs_the_same(name: str) -> None:
    """What a package needs to be built and to run, with the same bounds, in conda's words."""
    (output,) = re.findall(rf"  - package:\n      name: {name}\n(.*?)(?=\n\n)", RECIPE.read_text(), re.DOTALL)
    (host,), (run,) = (re.findall(rf"^ *{key}: \[(.*)\]$", output, re.MULTILINE) for key in ("host", "run"))
    build = tomllib.loads((PACKAGES[name] / "pyproject.toml").read_text())["build-system"]["requires"]
    for line, wanted in ((host, build), (run, PROJECTS[name]["dependencies"])):
        for requirement in wanted:
            plain = distribution(requirement)
            bound = "==${{ version }}" if plain == "repdl-core" else requirement[len(plain) :]
            assert f"{'pytorch' if plain == 'torch' else plain} {bound}" in line, (requirement, line)


def test_packages__actions_are_pinned() -> None:
    """By the hash of a commit, since a tag can be moved, with its version beside it."""
    workflows = list((ROOT / ".github/workflows").glob("*.yml"))
    used = [use for path in workflows for use in re.findall(r"uses: (.*)", path.read_text())]
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", use) for use in used), used


def test_packages__the_changelog_begins_with_this_version() -> None:
    first, bits = re.findall(r"^##+ (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:2]
    assert re.fullmatch(rf"{re.escape(repdl.__version__)}, (unreleased|\d{{4}}-\d\d-\d\d)", first), first
    assert bits == "Bits"


@by_package
def test_packages__imports_are_required(name: str) -> None:
    """What the sources import is a dependency; what the tests import, one of the extra `test`."""
    own = {name, "repdl-core" if name in ("repdl-nn", "repdl-optim") else name}
    later = ("weights", "signing") if name == "repdl-core" else ()  # imported where they are needed
    for folder, extras in (("src", later), ("tests", ("test",))):
        allowed = {distribution(r) for r in requirements(name, *extras)} | own
        # repdl-core brings torch and numpy to everybody.
        allowed |= {distribution(r) for r in requirements("repdl-core")} if "repdl-core" in allowed else set()
        optional = {"repdl-nn", "repdl-optim", "repdl-cpu", "repdl-cuda"} if name == "repdl-core" else set()
        neighbours = {path.stem.replace("_", "-") for path in sources(PACKAGES[name] / folder)} - {"__init__"}
        optional |= neighbours if folder == "tests" else set()
        for path in sources(PACKAGES[name] / folder):
            missing = imported(path) - allowed - optional
            assert not missing, f"{path.relative_to(ROOT)} imports {missing}, which {name} does not require"


@by_package
def test_packages__metadata(name: str, built: Mapping[str, Any]) -> None:
    metadata = message_from_string(built[name].metadata())
    assert (metadata["Name"], metadata["License-Expression"]) == (name, "MIT")
    assert metadata.get_all("License-File") == ["LICENSE"]
    listed = metadata.get_all("Classifier") or []
    assert listed == sorted(listed) and set(listed) <= classifiers and len(listed) >= 8
    assert not any(classifier.startswith("License ::") for classifier in listed), "the expression says it"
    urls = dict(url.split(", ", 1) for url in metadata.get_all("Project-URL") or [])
    assert urls == PROJECTS["repdl-core"]["urls"] and all(url.startswith("https://") for url in urls.values())
    assert "test" in (metadata.get_all("Provides-Extra") or [])


@by_package
def test_packages__licence(name: str, built: Mapping[str, Any]) -> None:
    """One text in five places: a link would dangle in an sdist, whose makers keep it a link."""
    text = (ROOT / "LICENSE").read_bytes()
    places = [PACKAGES[name] / "LICENSE", built[name].sdist / "LICENSE"]
    places += built[name].wheel.glob("*.dist-info/licenses/LICENSE")
    assert len(places) == 3
    assert all(not place.is_symlink() and place.read_bytes() == text for place in places)


@by_package
def test_packages__files(name: str, built: Mapping[str, Any]) -> None:
    """An sdist has all that its build and tests need and nothing built; a wheel all that runs."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."]
    listing = subprocess.run(command, cwd=PACKAGES[name], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    tracked = {path for path in listing.stdout.split("\0") if path and path != "contract"}
    sdist = {str(p.relative_to(built[name].sdist)) for p in built[name].sdist.rglob("*") if p.is_file()}
    assert tracked <= sdist
    extra = {path for path in sdist - tracked if not path.startswith("contract/")}
    assert extra <= {"PKG-INFO", ".gitignore"}, extra
    wheel = {str(p.relative_to(built[name].wheel)) for p in built[name].wheel.rglob("*") if p.is_file()}
    wanted = {path.removeprefix("src/") for path in tracked if path.startswith("src/")}
    assert {path for path in wheel if ".dist-info/" not in path} == wanted
    assert any(path.endswith("py.typed") for path in wheel)
    if (PACKAGES[name] / "contract").exists():
        assert (built[name].sdist / "contract/include/repdl/contract/order.hpp").is_file()


def test_packages__what_runs_elsewhere_has_all_isas() -> None:
    """A wheel with the levels of the machine that built it would be slow on others."""
    settings = tomllib.loads((PACKAGES["repdl-cpu"] / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert settings["config-settings"] == {"cmake.define.REPDL_CPU_ISAS": "all"}
    for file in ("tools/wheels.py", "conda/recipe.yaml", "container/Dockerfile"):
        assert "cmake.define.REPDL_CPU_ISAS=all" in (ROOT / file).read_text(), file


def test_packages__an_sdist_passes_its_tests(built: Mapping[str, Any], site: Path, tmp_path: Path) -> None:
    """A file of tests of each pure package, outside the checkout, on what the wheels hold."""
    chosen = {"repdl-core": "test_digest.py", "repdl-nn": "test_nn_linear.py", "repdl-optim": "test_power.py"}
    tests = [str(built[name].sdist / "tests" / file) for name, file in chosen.items()]
    code = (
        "import sys, pytest, repdl, repdl.nn, repdl.optim\n"
        "print(*(module.__file__ for module in (repdl, repdl.nn, repdl.optim)), sep='\\n', flush=True)\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and all(line.startswith(str(site)) for line in lines[:3]), done.stdout + done.stderr
