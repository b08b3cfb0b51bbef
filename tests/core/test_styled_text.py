"""Marked texts: strings to all that read them, spans with roles to what colours them."""

from __future__ import annotations

import json

import pytest

from placesim.core.styled_text import (
    Role,
    StyledText,
    TextSpan,
    device,
    fill_template,
    join_texts,
    lines_of,
    list_words,
    place,
    quote,
)


def roles(text: StyledText) -> list[tuple[str, Role]]:
    return [(span.text, span.role) for span in text.spans if span.role is not Role.PLAIN]


def test_a_marked_text_is_its_string() -> None:
    text = StyledText("on ", device("GPU:0"), role=Role.NEW)
    assert text == "on GPU:0"
    assert json.dumps([text]) == '["on GPU:0"]'
    assert hash(text) == hash("on GPU:0")


def test_a_role_is_for_what_no_part_marks() -> None:
    text = StyledText("- ", device("CPU:1"), " gone", role=Role.GONE)
    assert text.spans == (TextSpan("- ", Role.GONE), TextSpan("CPU:1", Role.CPU), TextSpan(" gone", Role.GONE))


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("/job:localhost/replica:0/task:0/device:GPU:0", Role.GPU),
        ("/job:localhost/replica:0/task:0/cpu:0", Role.CPU),
        ("/device:TPU:0", Role.DEVICE),
        ("/job:ps/task:1", Role.DEVICE),
    ],
)
def test_devices_by_their_type(name: str, role: Role) -> None:
    assert device(name).spans == (TextSpan(name, role),)


def test_sentences_keep_the_marks_of_their_parts() -> None:
    text = fill_template("{} is on {} ({})", "a", device("GPU:0"), place("g.yaml:1:2"))
    assert text == "a is on GPU:0 (g.yaml:1:2)"
    assert roles(text) == [("GPU:0", Role.GPU), ("g.yaml:1:2", Role.PLACE)]
    with pytest.raises(ValueError, match="zip"):
        fill_template("{} and {}", "a")


def test_lists_keep_the_marks_of_their_parts() -> None:
    names = [device(f"GPU:{i}") for i in range(3)]
    assert join_texts(", ", names) == "GPU:0, GPU:1, GPU:2"
    assert join_texts(", ", ()) == ""
    assert list_words(names, 2) == "GPU:0, GPU:1 and 1 more"
    assert roles(list_words(names, 2)) == [("GPU:0", Role.GPU), ("GPU:1", Role.GPU)]


def test_devices_in_a_quoted_sentence() -> None:
    text = quote("Cannot merge '/device:CPU:2' and '/device:GPU:1'")
    assert text == "Cannot merge '/device:CPU:2' and '/device:GPU:1'"
    assert roles(text) == [("CPU:2", Role.CPU), ("GPU:1", Role.GPU)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a\n", ["a"]),
        ("a", ["a"]),
        ("a\n\nb\n", ["a", "", "b"]),
        (StyledText("a", device("CPU:0"), "\nb"), ["aCPU:0", "b"]),
    ],
)
def test_lines(text: str, lines: list[str]) -> None:
    assert ["".join(span.text for span in line) for line in lines_of(text)] == lines
