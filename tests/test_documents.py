"""The README and the manual: their commands print what is shown, their figures are those of the data, what they name exists."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

import placesim
from placesim.cli.commands import COMMANDS
from placesim.cli.group import LazyGroup
from placesim.cli.group import placesim as group
from placesim.cli.manual_pages import find_sections, read_page, topics
from tests.documents import (
    DOCUMENTS,
    ON_A_TERMINAL,
    PICTURES,
    TERMINAL,
    blocks,
    commands,
    draw_picture,
    files,
    is_same,
    is_shown,
    make_place,
    run,
    surroundings_of,
)
from tests.processes import ROOT

README = (ROOT / "README.md").read_text()
SHOWN_ON_A_TERMINAL = [path for path in DOCUMENTS if path.stem in ON_A_TERMINAL]


def page_name(path: Path) -> str:
    return path.stem


def tokens_of(text: str) -> list[Token]:
    """What rich's Markdown reads."""
    return [token for block in MarkdownIt().enable("table").parse(text) for token in (block, *(block.children or ()))]


every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=page_name)


@cache
def lines_of_both() -> frozenset[str]:
    """The commands that both documents of a terminal show; they read the repository's graphs alone."""
    readme, first_steps = ({command.line for command in commands(path.read_text())} for path in SHOWN_ON_A_TERMINAL)
    return frozenset(line for line in readme & first_steps if re.match(r"placesim (simulate|plan) graphs/", line))


@cache
def run_for_both(line: str) -> tuple[int, str]:
    return run(line, ROOT, TERMINAL)


@pytest.mark.slow(8)
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            path, id=page_name(path), marks=[pytest.mark.xdist_group("terminal")] if path in SHOWN_ON_A_TERMINAL else []
        )
        for path in DOCUMENTS
    ],
)
def test_the_commands_print_what_is_shown(document: Path, tmp_path: Path) -> None:
    text = document.read_text()
    make_place(tmp_path, text)
    for command in commands(text):
        is_in_both = document in SHOWN_ON_A_TERMINAL and command.line in lines_of_both()
        ended = run_for_both(command.line) if is_in_both else run(command.line, tmp_path, surroundings_of(document))
        code, output = ended
        assert is_shown(output, command.output), (command.line, output)
        assert "a bug in placesim" not in output, command.line
        error = re.match(r"(?:.*\n)*?(\w+Error): ", output)
        wanted = getattr(placesim, error[1], placesim.RequestError).exit_code if error is not None else 0
        assert code == (0 if "echo" in command.line else wanted), command.line


@every_document
def test_every_file_that_is_shown_is_used(document: Path) -> None:
    text = document.read_text()
    lines = " ".join(command.line for command in commands(text))
    assert [name for name in files(text) if name not in lines] == []


def test_the_first_graph_is_the_file() -> None:
    (shown,) = [block.text for block in blocks(read_page("getting-started")) if block.language == "yaml"]
    written = yaml.safe_load((ROOT / "graphs" / "manual.yaml").read_text())
    written.pop("name")
    assert yaml.safe_load(shown) == written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "name"), [("placesim/manual/getting-started.md", "report"), ("placesim/manual/python.md", "squares")]
)
def test_the_python_lines_run(document: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [block.text for block in blocks((ROOT / document).read_text()) if block.language == "python"]
    lines = [text for text in shown if not re.match(r"# \S+\.py$", text.splitlines()[0])]  # the others are files
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for text in lines:
        exec(compile(text, document, "exec"), names)
    assert name in names


def test_the_figures_are_those_of_the_recordings() -> None:
    rows = re.findall(r"^\| ((?:placement|ops)-[\w.-]+|building) \| (\d+) \| (\d+) \|$", read_page("exactness"), re.MULTILINE)
    data = ROOT / "tests" / "data"
    for name, cases, agree in rows:
        path = data / f"{name}.jsonl.gz"
        recorded = gzip.decompress(path.read_bytes()) if path.exists() else (data / f"{name}.jsonl").read_bytes()
        assert len(recorded.splitlines()) == int(cases), name
        assert int(cases) - int(agree) == (2 if name == "ops-string" else 0), name
    families = {path.name.partition(".")[0] for path in data.glob("ops-*.gz")}
    assert families <= {name for name, _, _ in rows}
    varied = len(gzip.decompress((data / "varied-ops.jsonl.gz").read_bytes()).splitlines())
    assert f"{varied:,} more op cases" in " ".join(read_page("exactness").split())
    assert f"more than {(sum(int(cases) for _, cases, _ in rows) + varied) // 1000},000 cases" in " ".join(README.split())


@every_document
def test_the_targets_exist(document: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)\b", document.read_text(), re.MULTILINE))
    assert named <= set(targets)
    assert document.stem != "README" or {"run", "test", "check"} <= named


def test_the_dependencies_are_those_of_the_package() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=~ ]", text)[0] for text in project["dependencies"]}
    listed = find_sections(read_page("contributing"), "Dependencies")
    assert needed == set(re.findall(r"^\| ([\w-]+) \| (?!why)", listed, re.MULTILINE)) - {"package"}


@pytest.mark.slow
@every_document
def test_links_and_topics_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    targets = {"link_open": "href", "image": "src"}
    for link in (str(token.attrs[targets[token.type]]) for token in tokens_of(text) if token.type in targets):
        assert (document.parent / link).exists(), link
    for topic, section in re.findall(r"`placesim manual ([a-z][a-z-]*)(?: ([^`|]+))?`", text):
        assert topic in topics(), topic
        assert not section or find_sections(read_page(topic), section), (topic, section)


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["architecture", "contributing"])
def test_the_rooms_and_modules_that_are_named_exist(topic: str) -> None:
    """`room/module.py`, `room/module` and `room/`, as seen from the repository or from somewhere in the package."""
    for name in re.findall(r"`((?:\w+/)*(?:\w+\.py|(?<=/)\w*))`", read_page(topic)):
        paths = (name.rstrip("/"), f"{name}.py")
        assert (ROOT / name).exists() or any(any((ROOT / "placesim").rglob(path)) for path in paths), name


@pytest.mark.slow
@every_document
def test_rich_shows_all_of_a_page(document: Path) -> None:
    """Whatever looks like HTML would be left out on a terminal."""
    kinds = {token.type for token in tokens_of(document.read_text())}
    lost = {"html_inline", "html_block", "image", "code_block"} - (
        {"image"} if document.stem in ("README", "studio") else set()
    )
    assert not lost & kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_are_those_that_placesim_draws(name: str, tmp_path: Path) -> None:
    draw_picture(name, tmp_path / name)
    kept = ROOT / "placesim" / "manual" / "pictures" / name
    assert is_same(kept.read_text(), (tmp_path / name).read_text())
    assert f"manual/pictures/{name})" in README
    assert kept.stat().st_size < 20_000


@pytest.mark.parametrize(
    ("shown", "is_it"),
    [
        ("a\nb\nc\nd\n", True),
        ("a\nb\n", False),
        ("a\n...\n", True),
        ("b\n...\n", False),
        ("...\nd\n", True),
        ("...\nc\n", False),
        ("...\nb\nc\n...\n", True),
        ("...\nb\nd\n...\n", False),
        ("a\n...\nc\n...\nb\n", False),
        ("a\nb\nc\n...\nc\nd\n", False),
    ],
)
def test_a_line_of_dots_stands_for_lines_left_out(shown: str, is_it: bool) -> None:
    assert is_shown("a\nb\nc\nd\n", shown) == is_it


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(README.splitlines()) <= 120
    pages = {path.stem for path in DOCUMENTS} - {"README"}
    assert set(re.findall(r"manual/([\w-]+)\.md", README)) == pages


def test_every_option_is_in_the_manual() -> None:
    """Each command's section of the manual, with those that several commands share, names its options, and no other."""
    page = read_page("command-line")
    shared = {
        section: set(
            re.findall(r"(--[a-z-]+)", " ".join(re.findall(r"^\| .*? \|", find_sections(page, section), re.MULTILINE)))
        )
        for section in (
            "Options of every command",
            "Options of the machine",
            "Options of a cluster",
            "Options of the source",
            "Options of the placement",
            "Options of the log",
        )
    }
    assert isinstance(group, LazyGroup)
    for name in COMMANDS:
        command = group.get_command(None, name)  # type: ignore[arg-type]  # it has no use for the context
        assert command is not None
        taken = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        taken = {option for option in taken if option.startswith("--")}
        section = find_sections(page, f"placesim {name}")
        own = set(re.findall(r"(--[a-z-]+)", " ".join(re.findall(r"^\| .*? \|", section, re.MULTILINE))))
        # an option may also be one of a shared section that the command does not take
        assert taken == own | {option for options in shared.values() if options <= taken for option in options}, name
