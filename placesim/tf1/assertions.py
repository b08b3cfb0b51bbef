"""`tf.Assert`."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import dtypes
from placesim.tf1.conversion import convert_n_to_tensor, convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.scopes import name_scope


def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Any:  # noqa: N802
    """An operation that fails where the condition does not hold; what it shows is computed only then, if that costs much."""
    with name_scope(name, "Assert", [condition, data]):
        found = convert_n_to_tensor(data)
        if all(item.dtype.base_dtype in (dtypes.string, dtypes.int32) for item in found):
            return gen("Assert")(condition, data, 3 if summarize is None else summarize, name="Assert")
        from placesim.tf1.control_flow import cond
        from placesim.tf1.generated import gen as generated

        condition = convert_to_tensor(condition, name="Condition")
        guarded = cond(
            condition,
            lambda: generated("NoOp")(),
            lambda: generated("Assert")(condition, data, 3 if summarize is None else summarize, name="Assert"),
            name="AssertGuard",
        )
        return guarded.op
