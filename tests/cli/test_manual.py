"""`placesim manual`: topics, pages, sections and rules, in a pipe and on terminals."""

from __future__ import annotations

import json
import re
import sys

import pytest
from rich.cells import cell_len

from placesim.cli.manual_pages import MADE, find_sections, read_page, read_sections, topics
from tests.cli.shell import ROOT, Shell
from tests.cli.test_process import ESCAPE, on_a_terminal
from tests.processes import run_process, run_shell


def test_the_topics_are_listed(shell: Shell) -> None:
    ended = shell("manual")
    assert ended == (0, "".join(f"{name}\t{title}\n" for name, title in ({"topic": "title"} | topics()).items()), "")
    files = (path.stem for ending in ("md", "ipynb") for path in (ROOT / "placesim" / "manual").glob(f"*.{ending}"))
    assert sorted([*MADE, *files]) == list(topics())


def test_a_page_in_a_pipe_is_its_markdown(shell: Shell) -> None:
    written = (ROOT / "placesim" / "manual" / "graph-file.md").read_text()
    assert shell("manual", "graph-file") == (0, written, "")
    assert shell("manual", "Graph-File").output == shell("manual", "graph-file.md").output == written


def test_a_section(shell: Shell) -> None:
    ended = shell("manual", "graph-file", "scopes")
    assert ended.output.startswith("## Scopes\n\n")
    assert "### Copies: a list of devices" in ended.output
    assert "## Variables" not in ended.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topic", "section"),
    [("ops", "matmul"), ("ops", "fused"), ("ops", "letter q"), ("ops", "ops: inputs"), ("tf1-functions", "tf.nn")],
)
def test_a_section_of_a_page_that_is_made_is_the_one_of_the_whole_page(topic: str, section: str) -> None:
    assert read_sections(topic, section) == find_sections(read_page(topic), section) != ""


@pytest.mark.parametrize("section", [("7.2c", "i"), ("7.2c i",), ("7.2ci",)])
def test_a_rule(section: tuple[str, ...], shell: Shell) -> None:
    ended = shell("manual", "placement", *section)
    assert ended.output.startswith("## 7. Soft placement\n\n- **7.2c i** ")
    assert "7.2c ii" not in ended.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("placment",), "no such topic: got 'placment', expected one of architecture, "),
        (("placment",), "; did you mean 'placement'?"),
        (("placement", "7.33"), "no such section of 'placement': got '7.33', expected a number or a part of a heading"),
        (("placement", "7.33"), "; did you mean '7.3'?"),
        (("graph-file", "scoops"), "; did you mean 'Scopes'?"),
        (("graph-file", "zzz"), "\n  Nodes\n  Scopes\n"),
        (("tf1-functions", "zzz"), " more headings\n"),
    ],
)
def test_what_there_is_not(arguments: tuple[str, ...], said: str, shell: Shell) -> None:
    ended = shell("manual", *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: ")
    assert said in ended.complaint


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 100, 160])
def test_a_terminal_wraps_between_words(width: int) -> None:
    shown = on_a_terminal("manual", "inspecting", "explain", COLUMNS=str(width))
    lines = ESCAPE.sub("", shown).splitlines()
    assert "\x1b[" in shown
    assert max(map(cell_len, lines)) <= width
    assert not any(line.endswith(" ") for line in lines)
    prose = re.sub(r"```.*?```", "", find_sections(read_page("inspecting"), "explain"), flags=re.DOTALL)
    paragraphs = [re.sub(r"[`#*]", "", text).split() for text in prose.split("\n\n")]
    words = " ".join(" ".join(lines).split())
    assert all(" ".join(paragraph).replace("*", "") in words.replace("*", "") for paragraph in paragraphs)


@pytest.mark.slow
@pytest.mark.parametrize("topic", [topic for topic in topics() if topic != "ops"])  # that one is long, and all alike
def test_every_page_fits_a_terminal(topic: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    ended = shell("manual", topic)
    assert ended.code == 0
    assert max(map(cell_len, ESCAPE.sub("", ended.output).splitlines())) <= 60


def test_the_topics_on_a_terminal() -> None:
    shown = ESCAPE.sub("", on_a_terminal("manual", COLUMNS="100"))
    assert "\t" not in shown
    assert re.search(r"^placement +Placement: TensorFlow's rules by number *$", shown, re.MULTILINE)


def test_only_the_first_line_is_wanted() -> None:
    ended = run_shell("set -o pipefail; placesim manual placement | head -1")
    assert ended == (0, "# Placement: TensorFlow's rules by number\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("colour", ["", "1"])
def test_it_starts_without_numpy(colour: str) -> None:
    code = (
        "import sys; from placesim.cli import main; main(['manual', 'placement', '7.3'])\n"
        "print(sorted({'numpy', 'yaml', 'scipy'} & set(sys.modules)))"
    )
    ended = run_process((sys.executable, "-c", code), check=True, environment={"FORCE_COLOR": colour})
    assert ended.output.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("what", "key"), [("graph", "nodes"), ("policy", "rules")])
def test_a_schema_for_editors(shell: Shell, what: str, key: str) -> None:
    ended = shell("manual", "--schema", what)
    schema = json.loads(ended.output)
    assert ended.code == 0
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == [key]
    assert key in schema["properties"]


def test_a_schema_is_of_a_graph_or_a_policy_and_no_page(shell: Shell) -> None:
    assert shell("manual", "--schema", "graf").code == 2
    ended = shell("manual", "--schema", "graph", "placement")
    assert (ended.code, ended.output) == (2, "")
    assert "got --schema graph and 'placement', expected one of them" in ended.complaint


def test_the_tutorial_is_a_notebook(shell: Shell) -> None:
    written = (ROOT / "placesim" / "manual" / "tutorial.ipynb").read_text("utf-8")
    assert shell("manual", "--notebook") == (0, written, "")
    ended = shell("manual", "--notebook", "placement")
    assert (ended.code, ended.output) == (2, "")
    assert "got --notebook and 'placement', expected one of them" in ended.complaint
