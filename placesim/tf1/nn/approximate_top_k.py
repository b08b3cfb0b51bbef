"""The largest or smallest elements, found approximately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.generated import gen


def _approximate(is_max: bool, name: str) -> Callable[..., Any]:
    def function(
        operand: Any,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
        name: str | None = None,
    ) -> Any:
        return gen("ApproxTopK")(
            operand,
            k=k,
            reduction_dimension=reduction_dimension,
            recall_target=recall_target,
            is_max_k=is_max,
            reduction_input_size_override=reduction_input_size_override,
            aggregate_to_topk=aggregate_to_topk,
            name=name,
        )

    function.__name__ = function.__qualname__ = name
    return function


approx_max_k = _approximate(True, "approx_max_k")
approx_min_k = _approximate(False, "approx_min_k")
