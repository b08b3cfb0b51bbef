"""Functions of elements: each is traced once, with placeholders for an element, to a function of the graph's library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from placesim.ops.attributes import FunctionName
from placesim.tf1.data import structures
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.functions.user_code import call_user_code
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor

_NOT_IN_NAMES = str.maketrans("", "", "<>\\' ")


class ElementFunction:
    """A function of an element: name in the library, captured tensors, and the spec of its result."""

    def __init__(self, function: Callable[..., Any], caller: str, spec: Any, unpacks: bool = True) -> None:
        """Trace the function for arguments of `spec`.  With `unpacks`, the parts of a tuple are separate arguments.

        `caller` is TensorFlow's name of the calling method, a part of the function's name.
        """
        if not callable(function):
            raise ValueError(f"Argument `func` must be a callable. Received func={function} (of type {type(function)})")
        self._function = function
        self._spec = spec
        self._unpacks = unpacks
        self.output_spec: Any = None
        body = FunctionGraph("", keeps_devices=False)
        body.reads_python = True
        with body.as_default():
            rows = zip(structures.component_types(spec), structures.component_shapes(spec), strict=True)
            args = [body.add_argument(dtype, shape, f"args_{i}") for i, (dtype, shape) in enumerate(rows)]
        build(body, self._call, args, orders_effects=True)
        body.name = function_name((f"__inference_{caller}_{_readable_name(function)}",))
        name = add_function(get_default_graph(), body, {"_tf_data_function": True})
        self.name = FunctionName(name, (("_tf_data_function", True),))
        self.captured: list[Tensor] = list(body.captures)

    def _call(self, *tensors: Tensor) -> list[Tensor]:
        element = structures.from_tensors(self._spec, tensors)
        parts = tuple(element) if self._unpacks and isinstance(element, tuple) else (element,)
        given = call_user_code(self._function, *parts)
        if isinstance(given, list):
            given = tuple(given)
        self.output_spec = structures.spec_of(given)
        return structures.to_tensors(given)

    @property
    def output_types(self) -> Any:
        return structures.types_of(self.output_spec)

    def dataset_spec(self) -> Any:
        """Spec of the elements of the returned dataset.  Raises AttributeError, as TensorFlow does, for other results."""
        if not isinstance(self.output_spec, structures.DatasetSpec):
            raise AttributeError("'Tensor' object has no attribute '_name'")
        return self.output_spec.element_spec


def _readable_name(function: Callable[..., Any]) -> str:
    if inspect.isfunction(function):
        name = function.__name__
    elif inspect.ismethod(function):
        name = f"{type(function.__self__).__name__}.{function.__name__}"
    else:
        name = str(type(function))
    return name.translate(_NOT_IN_NAMES)


def element_function(function: Callable[..., Any], caller: str, dataset: Dataset) -> ElementFunction:
    """Function traced for the elements of a dataset."""
    return ElementFunction(function, caller, dataset.element_spec)
