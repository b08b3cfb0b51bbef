"""Public functions by call: the nodes, those of the gradients, the result or the error are TensorFlow's."""

from __future__ import annotations

import pytest

from placesim.tf1.importing.namespaces import namespace
from tests.tf1.calls import calls, record


@pytest.mark.corpus
def test_a_call_makes_what_tensorflow_makes(subtests: pytest.Subtests) -> None:
    recorded = calls()
    assert len(recorded) == 567
    for call, expected in recorded.items():
        with subtests.test(call):
            found = record(namespace(""), call)
            for part in ("nodes", "result", "gnodes", "grad"):
                if part in expected:
                    assert found.get(part) == expected[part], part
