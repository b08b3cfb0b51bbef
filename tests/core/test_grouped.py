"""Values in lists by their keys, and as numbers."""

from __future__ import annotations

from placesim.core.grouped import grouped, numbered


def test_keys_and_values_are_in_the_order_of_the_pairs() -> None:
    found = grouped((len(word), word) for word in ("two", "a", "six", "b", "seven"))
    assert list(found.items()) == [(3, ["two", "six"]), (1, ["a", "b"]), (5, ["seven"])]
    assert grouped([]) == {}


def test_equal_values_have_the_same_number() -> None:
    assert numbered("banana") == (["b", "a", "n"], [0, 1, 2, 1, 2, 1])
    assert numbered("") == ([], [])
