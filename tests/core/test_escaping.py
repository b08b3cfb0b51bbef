"""What may be shown: no control characters and no commands of GitHub, whatever a text holds, and JSON that says the same."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.escaping import as_json_escape, escape, escape_data, escape_json, escape_line
from placesim.core.styled_text import Role, StyledText, one_line

CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]")
COMMANDS = re.compile(r"^\s*::[A-Za-z]|##\[", re.MULTILINE)
TEXTS = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x1b\n\t\r\x9b\u202e\udcff#[: a"))


@pytest.mark.parametrize(
    ("text", "shown", "line"),
    [
        ("plain é 😀", "plain é 😀", "plain é 😀"),
        ("a\nb\tc", "a\nb\tc", r"a\nb\tc"),
        ("\x1b[31m\r\x00\x7f", r"\x1b[31m\r\x00\x7f", r"\x1b[31m\r\x00\x7f"),
        ("é\x9b\u2028\u202e\U000e0041", r"é\x9b\u2028\u202e\U000e0041", r"é\x9b\u2028\u202e\U000e0041"),
        ("\udcff\udc80\ud83d", r"\xff\x80\ud83d", r"\xff\x80\ud83d"),
        ("a\ufffe\uffff", r"a\ufffe\uffff", r"a\ufffe\uffff"),
        ("a\n ::error::b", "a\n \\x3a:error::b", r"a\n \x3a:error::b"),
        ("::error::b ::c", r"\x3a:error::b \x3a:c", r"\x3a:error::b \x3a:c"),
        ("a###[error]b", r"a#\x23#[error]b", r"a#\x23#[error]b"),
        ("ai.onnx::Add [::1]", "ai.onnx::Add [::1]", "ai.onnx::Add [::1]"),
    ],
)
def test_what_is_escaped(text: str, shown: str, line: str) -> None:
    assert escape(text) == shown
    assert escape_line(text) == line


@given(TEXTS)
def test_nothing_gets_through(text: str) -> None:
    assert not CONTROLS.search(escape(text))
    assert not CONTROLS.search(escape_line(text))
    assert not COMMANDS.search(escape(text))
    assert not COMMANDS.search(escape_line(text))
    assert not CONTROLS.search(escape_data(text))
    assert not {"\n", "\t"} & set(escape_line(text))
    assert escape(escape(text)) == escape(text)


@given(TEXTS)
def test_json_stays_the_same(text: str) -> None:
    written = escape_json(json.dumps([text], ensure_ascii=False))
    assert not CONTROLS.search(written)
    assert "##[" not in written
    halves = re.compile("[\ud800-\udfff]")
    assert json.loads(written) == [halves.sub(lambda found: escape(found[0]), text)]


@given(st.text(st.characters(codec="utf-8")))
def test_an_escape_of_json(text: str) -> None:
    assert json.loads(f'"{as_json_escape(text)}"') == text


def test_a_marked_text_has_no_controls() -> None:
    text = StyledText("a\x1b", StyledText("b\n\x9b", role=Role.NODE))
    assert text == "a\\x1bb\n\\x9b"
    assert "".join(span.text for span in text.spans) == text
    assert one_line(text).spans[1] == ("b\\n\\x9b", Role.NODE)
