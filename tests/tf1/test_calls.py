"""Public functions by call: the nodes, those of the gradients, the result or the error are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placesim.tf1.importing.namespaces import namespace
from tests.tf1.calls import calls, contrib_calls, library_calls, mixed_calls, model_calls, option_calls, outline, record

pytestmark = pytest.mark.corpus
_PARTS = 4

Recorded = dict[str, dict[str, Any]]


def _part(recorded: Recorded, part: int) -> Recorded:
    return dict(list(recorded.items())[part::_PARTS])


def _hold(subtests: pytest.Subtests, recorded: Recorded, make: Callable[[Any, str], dict[str, Any]] = record) -> None:
    """Compare each call. Only one that differs is a subtest: that takes longer than many a call."""
    assert recorded
    for call, expected in recorded.items():
        found = make(namespace(""), call)
        if found != expected:
            with subtests.test(call):
                assert found == expected


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_call_makes_what_tensorflow_makes(part: int, subtests: pytest.Subtests) -> None:
    _hold(subtests, _part(calls(), part))


def test_a_call_of_what_packages_build_on_makes_what_tensorflow_makes(subtests: pytest.Subtests) -> None:
    _hold(subtests, library_calls() | mixed_calls())


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_call_of_a_strategy_column_or_distribution_makes_what_tensorflow_makes(part: int, subtests: pytest.Subtests) -> None:
    _hold(subtests, _part(model_calls(), part))


def test_a_call_of_contrib_gives_and_collects_what_tensorflow_1_does(subtests: pytest.Subtests) -> None:
    _hold(subtests, contrib_calls(), outline)


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_call_with_options_or_mistakes_does_what_tensorflow_does(part: int, subtests: pytest.Subtests) -> None:
    recorded = _part(option_calls(), part)
    _hold(subtests, {call: expected for call, expected in recorded.items() if "collections" in expected}, outline)
    _hold(subtests, {call: expected for call, expected in recorded.items() if "collections" not in expected})


def test_no_recorded_call_is_lost() -> None:
    assert (len(calls()), len(contrib_calls())) == (2851, 293)
    assert (len(library_calls()), len(mixed_calls()), len(model_calls())) == (445, 184, 486)
    assert len(option_calls()) == 102
