"""Literals that are no constant tensor: each is an error that says what was found."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.dtypes import COMPLEX64, FLOAT, DataType
from placesim.core.errors import GraphBuildError
from placesim.graph.constants import make_constant

WRONG: list[tuple[Any, DataType, str]] = [
    (10**400, FLOAT, "number out of range: got 1000000000000000000000000000000000000000... of 401 digits, expected"),
    (-(10**400), COMPLEX64, "number out of range: got -1000000000000000000000000000000000000000... of 401 digits, expected"),
    (10**5000, FLOAT, "number out of range: got an integer of thousands of digits, expected a number in the range of a double"),
    ([[1, 2], [3, 4, 5]], COMPLEX64, "not a complex number: got 3 numbers, expected a pair [real, imaginary]"),
    ([[1, 2], []], COMPLEX64, "not a complex number: got 0 numbers"),
    ([[1, 2], [10**400, 1]], COMPLEX64, "number out of range"),
]


@pytest.mark.parametrize(("value", "dtype", "message"), WRONG, ids=range(len(WRONG)))
def test_a_literal_that_is_no_constant(value: Any, dtype: DataType, message: str) -> None:
    with pytest.raises(GraphBuildError) as found:
        make_constant(value, dtype)
    assert str(found.value).startswith(message)
