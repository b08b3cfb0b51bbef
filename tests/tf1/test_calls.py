"""Public functions by call: the nodes, those of the gradients, the result or the error are TensorFlow's."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.tf1.importing.namespaces import namespace
from tests.tf1.calls import calls, contrib_calls, library_calls, mixed_calls, model_calls, option_calls, outline, record

pytestmark = pytest.mark.corpus
_PARTS = 4


def _part(recorded: dict[str, Any], part: int) -> list[tuple[str, Any]]:
    return list(recorded.items())[part::_PARTS]


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_call_makes_what_tensorflow_makes(part: int, subtests: pytest.Subtests) -> None:
    for call, expected in _part(calls(), part):
        with subtests.test(call):
            found = record(namespace(""), call)
            for key in ("nodes", "result", "gnodes", "grad"):
                if key in expected:
                    assert found.get(key) == expected[key], key


def test_a_call_of_what_packages_build_on_makes_what_tensorflow_makes(subtests: pytest.Subtests) -> None:
    for call, expected in {**library_calls(), **mixed_calls()}.items():
        with subtests.test(call):
            assert record(namespace(""), call) == expected


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_call_of_a_strategy_column_or_distribution_makes_what_tensorflow_makes(part: int, subtests: pytest.Subtests) -> None:
    for call, expected in _part(model_calls(), part):
        with subtests.test(call):
            assert record(namespace(""), call) == expected


def test_a_call_of_contrib_gives_and_collects_what_tensorflow_1_does(subtests: pytest.Subtests) -> None:
    for call, expected in contrib_calls().items():
        with subtests.test(call):
            assert outline(namespace(""), call) == expected


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_call_with_options_or_mistakes_does_what_tensorflow_does(part: int, subtests: pytest.Subtests) -> None:
    for call, expected in _part(option_calls(), part):
        with subtests.test(call):
            assert (outline if "collections" in expected else record)(namespace(""), call) == expected


def test_no_recorded_call_is_lost() -> None:
    assert (len(calls()), len(contrib_calls())) == (2851, 293)
    assert (len(library_calls()), len(mixed_calls()), len(model_calls())) == (445, 184, 486)
    assert len(option_calls()) == 97
