"""Where results go: a file's ending tells the form, by one rule for all commands that write pages; `--open` shows a page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell

GRAPH = "nodes: [{op: Const, name: a, value: 1.0}]\nfetch: [a]\n"
COMMANDS = ("show", "memory", "simulate", "sweep")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_ending_is_an_error_and_writes_nothing(shell: Shell, command: str) -> None:
    graph = shell.write("g.yaml", GRAPH)
    axes = ("--batch", "1") if command == "sweep" else ()
    found = shell(command, graph, *axes, "--output", "x.htm1")
    assert (found.code, found.output) == (2, "")
    assert "cannot infer a format from x.htm1 in --output: got no known extension, expected one of " in found.complaint
    assert " .html" in found.complaint
    assert not (shell.directory / "x.htm1").exists()


def test_what_is_asked_for_goes_into_a_file_of_any_name(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    assert shell("show", graph, "--format", "json", "--output", "x.any").code == 0
    assert (shell.directory / "x.any").read_text().startswith("{")
    for name in ("plain", "x.txt"):
        assert shell("show", graph, "--output", name).code == 0
        assert (shell.directory / name).read_text() == shell("show", graph).output


@pytest.mark.parametrize("arguments", [("diff", "g.yaml", "--b-gpu", "1"), ("plan", "g.yaml")])
def test_a_page_of_steps_has_a_pages_ending(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell.write("g.yaml", GRAPH)
    found = shell(*arguments, "--html", "x.svg")
    assert (found.code, found.output) == (2, "")
    assert "cannot infer a format from x.svg in --html: got no known extension, expected one of .html" in found.complaint


@pytest.mark.parametrize("command", ["show", "memory", "simulate"])
def test_open_shows_the_page_in_a_browser(shell: Shell, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def show(url: str) -> bool:
        shown.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", show)
    graph = shell.write("g.yaml", GRAPH)
    assert shell(command, graph, "--output", "x.html", "--open").code == 0
    assert shown == [(shell.directory / "x.html").as_uri()]
    found = shell(command, graph, "--open")
    assert found.code == 0
    assert found.output == ""
    page = Path(shown[1].removeprefix("file://"))
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert f"Opened {page}" in found.complaint


def test_a_picture_is_written_without_a_browser(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = shell.write("g.yaml", GRAPH)
    assert shell("show", graph, "--output", "x.svg").code == 0
    drawn = (shell.directory / "x.svg").read_text()
    assert drawn.startswith("<svg ")
    assert shell("show", graph, "--format", "svg").output == drawn
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    found = shell("show", graph, "--output", "x.png")
    assert (found.code, found.output) == (2, "")
    assert "pip install 'placesim[pictures]'" in found.complaint
    assert not (shell.directory / "x.png").exists()


def test_open_is_for_pages(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    found = shell("show", graph, "--output", "x.json", "--open")
    assert found.code == 2
    assert "--open needs a page: got format json" in found.complaint
    assert not (shell.directory / "x.json").exists()
