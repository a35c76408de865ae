"""The page of what differs: its numbers are those of the comparison, and it needs nothing beside it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from recorded_programs import STEPS, recorded

from repdl.cli import main
from repdl.records import diff
from repdl.records.page import page

VOID = {"meta", "br"}


class Balanced(HTMLParser):
    """Sees that every element ends, and what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that begins and ends, as `<rect/>`."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "base.repdl"
    recorded(path)
    return path


def test_page__of_a_difference(base, tmp_path: Path) -> None:
    recorded(tmp_path / "other.repdl", "numpy")
    found = diff(base, tmp_path / "other.repdl")
    text = page(found)
    parser = Balanced()
    parser.feed(text)
    assert parser.open == [] and parser.fetched == [] and "<script" not in text
    first = found.findings[0].text.split("'")[0]
    assert f"First difference: {first}" in text
    steps = re.findall(r'<span class="(\w*)" title="step (\d+): (\d+) of', text)
    assert [state for state, _, _ in steps] == ["", "", "", "first", "follows", "follows"]
    assert sum(int(differ) for _, _, differ in steps) == len(found.states) == found.consequences + len(found.findings)
    assert {found.states[e.number] for e in found.a.entries if e.number in found.states} == {"first", "follows"}
    columns = [int(x) for x in re.findall(r'<rect x="(\d+)"', text)]
    width = -(-len(found.a.entries) // 400)
    assert (columns[0], columns[-1]) == tuple(number // width for number in (min(found.states), max(found.states)))
    assert re.search(r'class="first"><code>last</code> \d+ of \d+ differ', text)
    assert re.search(r'class="follows"><code>first</code> \d+ of \d+ differ', text)


def test_page__of_equal_runs(base, tmp_path: Path) -> None:
    recorded(tmp_path / "other.repdl")
    text = page(diff(base, tmp_path / "other.repdl"))
    assert "none differs" in text and "First difference" not in text and "<rect " not in text
    assert text.count('title="step ') == STEPS and "base.repdl and other.repdl: equal" in text


def test_page__names_are_escaped(base, tmp_path: Path) -> None:
    name = tmp_path / "<b>&.repdl"
    recorded(name, "eps")
    text = page(diff(base, name))
    assert "<b>" not in text and "&lt;b&gt;&amp;.repdl" in text


def test_page__command(base, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "other.repdl", "data")
    records = [str(base), str(tmp_path / "other.repdl")]
    assert main(["diff", *records, "--html", str(tmp_path / "page.html")]) == 1
    assert "first difference" in capsys.readouterr().out
    assert "SingleProcessDataLoaderIter" in (tmp_path / "page.html").read_text()
    assert main(["diff", *records, "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "page.html can't be written" in capsys.readouterr().err
    assert main(["diff", str(tmp_path / "page.html"), records[1], "--html", "x.html"]) == 2
