"""Rewritten graphs compute the same gradients as the originals, and round them no worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.planning.strategies.accuracy import GRAPHS, STRATEGIES, difference, in_float64, rewritten, with_gradients
from tests.planning.strategies.models import results

MODELS = ("dense", "convolutional", "recurrent", "attention, key bias")
DIVIDED = ("4 replicas, tree", "mirrored, ring", "accumulate 4", "pipeline, 1f1b")
_ZERO = "k_bias"
"""The bias of keys. It adds the same number to all scores of a query, which a softmax ignores, so its gradient is zero."""
Values = Mapping[str, Any]


def gradients(values: list[tuple[str, Any]]) -> Values:
    return {name: array for name, array in values if name.startswith("gradient of ")}


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_equal_in_float64_and_no_less_exact_in_float32(model: str) -> None:
    narrow = with_gradients(GRAPHS[model]("adam"))
    wide = in_float64(narrow)
    original, exact = gradients(results(narrow)), gradients(results(wide))
    largest = max(float(np.linalg.norm(gradient)) for gradient in exact.values())
    for strategy in DIVIDED:
        settings = STRATEGIES[strategy]
        found = gradients(results(narrow, rewritten(narrow, settings)))
        found_exactly = gradients(results(wide, rewritten(wide, settings)))
        for name, gradient in exact.items():
            if name.endswith(_ZERO):
                assert max(np.linalg.norm(gradient), np.linalg.norm(found_exactly[name])) < 1e-14 * largest
            else:
                assert difference(found_exactly[name], gradient).norm < 1e-13, (name, strategy)
            noise, own = (float(np.linalg.norm(np.float64(one[name]) - gradient)) for one in (original, found))
            assert own < 3 * noise + 1e-7 * float(np.linalg.norm(gradient)), (name, strategy)


@pytest.mark.slow
def test_norms_of_losses_and_variables_agree_although_adam_divides_by_small_gradients() -> None:
    graph = GRAPHS["attention, biases"]("adam")
    expected = results(graph)
    for strategy in DIVIDED:
        for (name, array), (_, other) in zip(expected, results(graph, rewritten(graph, STRATEGIES[strategy])), strict=True):
            assert difference(other, array).norm < 1e-5, (name, strategy)
