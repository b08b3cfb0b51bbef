"""The sets of op names: whether TensorFlow has such ops."""

from __future__ import annotations

import pytest

from placesim.ops import categories
from placesim.ops.registry import load_registry

SETS = {name: value for name, value in vars(categories).items() if name.isupper()}


@pytest.mark.parametrize("name", SETS)
def test_every_name_is_an_op_of_tensorflow(name: str) -> None:
    ops = list(SETS[name])
    assert ops
    assert len(set(ops)) == len(ops)
    assert [op for op in ops if load_registry().op(op) is None] == []
