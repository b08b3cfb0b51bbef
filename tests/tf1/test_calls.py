"""Public functions by call: the nodes, those of the gradients, the result or the error are TensorFlow's."""

from __future__ import annotations

import pytest

from placesim.tf1.namespaces import namespace
from tests.tf1.calls import calls, record

_CALLS = calls()


@pytest.mark.parametrize("call", _CALLS)
def test_a_call_makes_what_tensorflow_makes(call: str) -> None:
    expected = _CALLS[call]
    found = record(namespace(""), call)
    for part in ("nodes", "result", "gnodes", "grad"):
        if part in expected:
            assert found.get(part) == expected[part], part
