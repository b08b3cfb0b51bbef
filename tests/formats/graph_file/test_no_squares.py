"""Large files cost in proportion to their size: what is looked up is counted once, what is suggested is bounded."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from placesim.core.errors import GraphFileError
from placesim.core.suggestions import did_you_mean
from placesim.formats import problems
from placesim.formats.graph_file.parsing.yaml_tree import Mapping, key_position, resolve_plain, value_position
from placesim.formats.graph_file.plain_values import read_seconds, size_value
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.problems import InvalidValue

COUNT = 3000


class CountingKey(str):
    """A key that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountingKey.compared += 1
        return str.__eq__(self, other)


def test_places_of_keys_are_counted_once() -> None:
    tree = Mapping((CountingKey(number), number) for number in range(COUNT))
    tree.marks = list(range(1, 2 * COUNT + 2))
    CountingKey.compared = 0
    for number in range(COUNT):
        assert key_position(tree, CountingKey(number)) == 2 * number + 2
        assert value_position(tree, CountingKey(number)) == 2 * number + 3
    assert CountingKey.compared <= 10 * COUNT


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"unknown_{number}: 1\n" for number in range(COUNT)),
        "nodes: [{op: NoOp, " + ", ".join(f"unknown_{number}: 1" for number in range(COUNT)) + "}]",
        "nodes: [{op: NoOp}]\nrun: [{feed: {" + ", ".join(f"unknown_{number}: 1" for number in range(COUNT)) + "}}]",
        "nodes: [{op: NoOp}]\nfetch: [" + ", ".join(f"unknown_{number}" for number in range(COUNT)) + "]",
    ],
    ids=["keys", "keys of a node", "feeds", "fetches"],
)
def test_suggestions_are_bounded(text: str) -> None:
    with patch.object(problems, "did_you_mean", wraps=did_you_mean) as asked, pytest.raises(GraphFileError) as found:
        read_graph_file(text, "g.yaml")
    assert len(found.value.problems) >= COUNT
    assert asked.call_count <= 100


@pytest.mark.parametrize("text", ["1" + ":59" * 5000, "0x" + "f" * 5000, "0b" + "1" * 20000, "-" + "9" * 5000])
def test_an_integer_that_cannot_be_printed_is_text(text: str) -> None:
    assert resolve_plain(text) == text


def test_an_integer_in_base_60() -> None:
    assert resolve_plain("-1:59:59") == -7199


def test_amounts_with_much_space() -> None:
    """A text on which a backtracking matcher never ends."""
    space = " " * (1 << 20)
    assert size_value(f"{space}1{space}KiB{space}") == 1024
    assert read_seconds(f"1{space}ms") == 1e-3
    assert read_seconds(f"1{space}!") is None
    with pytest.raises(InvalidValue, match="bad size"):
        size_value(f"1{space}!")
