"""Lines and tables that are fitted to a terminal: broken between words, and in names behind what joins them."""

from __future__ import annotations

import io
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from placesim.core.styled_text import Role, StyledText
from placesim.report.terminal.console import Column, fit_table, line_starts, wrap_text
from placesim.report.terminal.output import MAX_PARAGRAPHS, styled, table

STYLE = re.compile(r"\x1b\[[0-9;]*m")
NAME = "tower_1/gradients/tower_1/conv1_grad/Conv2DBackpropFilter"


def lines(text: str, width: int, indent: int = 0) -> list[str]:
    return [line.plain for line in wrap_text(Text(text), width, indent)]


@pytest.mark.parametrize(
    ("text", "width", "indent", "expected"),
    [
        ("", 10, 2, [""]),
        ("one two three", 20, 2, ["one two three"]),
        ("one two three", 7, 0, ["one two", "three"]),
        ("one two three", 7, 2, ["one two", "  three"]),
        ("one  two", 4, 0, ["one", "two"]),
        (NAME, 30, 0, ["tower_1/gradients/tower_1/", "conv1_grad/", "Conv2DBackpropFilter"]),
        ("see " + NAME, 30, 2, ["see tower_1/gradients/tower_1/", "  conv1_grad/", "  Conv2DBackpropFilter"]),
        ("abcdefghij", 4, 0, ["abcd", "efgh", "ij"]),
        ("  in abcdef ghi", 9, 2, ["  in", "  abcdef", "  ghi"]),
    ],
)
def test_lines(text: str, width: int, indent: int, expected: list[str]) -> None:
    assert lines(text, width, indent) == expected


WORDS = st.text(alphabet=string.ascii_letters + "/_:", min_size=1, max_size=40)


@given(st.lists(WORDS, max_size=12), st.integers(4, 60), st.integers(0, 3))
def test_no_line_is_wider_and_nothing_is_lost(words: list[str], width: int, indent: int) -> None:
    text = " ".join(words)
    found = lines(text, width, indent)
    assert all(len(line) <= width for line in found)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    for start in line_starts(text, width, indent):
        begun = text.rfind(" ", 0, start) + 1
        whole = text[begun:].partition(" ")[0]
        # a word that a line can hold is never broken
        assert start == begun or len(whole) > width - indent


def drawn(columns: list[Column], cells: list[list[str]], width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(fit_table(columns, [list(map(Text, row)) for row in cells], width))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_names_take_what_numbers_leave() -> None:
    columns = [Column("node", is_name=True), Column("low", True, missed=1), Column("time", True)]
    shown = drawn(columns, [[NAME, "1.2 ms", "1.5 ms"], ["a", "1 us", "2 us"]], 60)
    assert shown == [
        "node                                             low    time",
        "tower_1/gradients/tower_1/conv1_grad/         1.2 ms  1.5 ms",
        "Conv2DBackpropFilter",
        "a                                               1 us    2 us",
    ]
    narrow = drawn(columns, [[NAME, "1.2 ms", "1.5 ms"]], 32)
    assert narrow[0].split() == ["node", "time"]
    assert all("1.2 ms" not in line and len(line) <= 32 for line in narrow)


def test_terms_stand_before_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    term = StyledText("  ", StyledText(f"{'chosen':<10}", role=Role.TERM), "because of this and of that and more\n")
    untitled = StyledText("  ", StyledText(" " * 10, role=Role.TERM), "because of this and of that and more\n")
    plain = "    because of this and of that and even more\n"
    text = styled(StyledText("first\n", term, untitled, plain), io.StringIO(), is_fitted=True)
    assert STYLE.sub("", text).splitlines() == [
        "first",
        "  chosen    because of this and of that",
        "            and more",
        "            because of this and of that",
        "            and more",
        "    because of this and of that and even",
        "      more",
    ]
    monkeypatch.delenv("COLUMNS")
    assert STYLE.sub("", styled(untitled, io.StringIO(), is_fitted=True)) == str(untitled)


def test_a_list_is_as_wide_as_the_terminal_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    name, sentence, columns = (
        "SoftmaxCrossEntropyWithLogits",
        "(features: T, labels: T) -> (loss: T)",
        ("op", "signature", "has_numpy"),
    )
    rows = [(name, sentence, "yes")] * (MAX_PARAGRAPHS + 1)
    shown = {}
    for width in (30, 62, 70, 90):
        monkeypatch.setenv("COLUMNS", str(width))
        shown[width] = [line.rstrip() for line in STYLE.sub("", table(columns, rows, io.StringIO())).splitlines()]
        assert max(map(len, shown[width])) <= width
    # every column has its heading and its cells, and a heading breaks behind `_`
    assert [line.split("  ", 1)[0] for line in shown[90][:2]] == ["op", name]
    assert shown[90][1] == f"{name}  {sentence}  yes"
    assert [line.split() for line in shown[62][:2]] == [["has_"], ["op", "signature", "numpy"]]
    assert shown[62][2].endswith("  yes")
