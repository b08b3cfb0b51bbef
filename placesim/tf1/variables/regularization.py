"""Regularization losses, which are built again in each expression that uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.ops.conversion import register_tensor_conversion_function
from placesim.tf1.session.stacks import FeedDict, RunningSession

_PROPERTIES = ("device", "dtype", "graph", "name", "op", "shape", "value_index")
_OPERATORS = (
    *("abs", "add", "and", "bool", "floordiv", "ge", "getitem", "gt", "invert", "iter", "le", "lt", "matmul", "mod"),
    *("mul", "neg", "or", "pow", "radd", "rand", "rfloordiv", "rmatmul", "rmod", "rmul", "ror", "rpow", "rsub"),
    *("rtruediv", "rxor", "sub", "truediv", "xor"),
)


class RegularizationLoss:
    """Regularization loss in a collection.

    Its properties are those of the tensor that `build` returned first.  As an operand it is a newly built tensor.
    """

    def __init__(self, build: Callable[[], Tensor]) -> None:
        self._build = build
        self._first = build()

    def collection_record(self) -> dict[str, str]:
        """TensorFlow's class name and the tensor's name, for comparing collections."""
        return {"_LazyEvalTensor": self._first.name}

    def get_shape(self) -> Any:
        return self._first.get_shape()

    def eval(self, feed_dict: FeedDict | None = None, session: RunningSession | None = None) -> Any:
        return self._build().eval(feed_dict, session)

    def _as_graph_element(self) -> Any:
        return self._first

    def __str__(self) -> str:
        return str(self._first)


def _first(name: str) -> property:
    return property(lambda self: getattr(self._first, name))


def _anew(operator: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self._build(), operator)(*args)


for _name in _PROPERTIES:
    setattr(RegularizationLoss, _name, _first(_name))
for _name in _OPERATORS:
    setattr(RegularizationLoss, f"__{_name}__", _anew(f"__{_name}__"))


def _convert(loss: RegularizationLoss, dtype: DTypeLike | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    return loss._build()


register_tensor_conversion_function(RegularizationLoss, _convert)
