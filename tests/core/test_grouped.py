"""Values in lists by their keys."""

from __future__ import annotations

from placesim.core.grouped import grouped


def test_keys_and_values_are_in_the_order_of_the_pairs() -> None:
    found = grouped((len(word), word) for word in ("two", "a", "six", "b", "seven"))
    assert list(found.items()) == [(3, ["two", "six"]), (1, ["a", "b"]), (5, ["seven"])]
    assert grouped([]) == {}
