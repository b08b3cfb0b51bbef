"""Ops that call Python functions of the process that built the graph: they can only fail here, as in any other process.

Source: TensorFlow's `script_ops.py` (what is raised for an unknown function) and `py_func.cc` (as which status).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, Table
from placesim.runtime.shapes import Dims, ShapeContext


def call(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """InvalidArgumentError: the function was registered in another process."""
    raise InvalidArgumentError(f"ValueError: callback {attrs['token']} is not found")


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_declared(context: ShapeContext) -> Sequence[Dims]:
    return (None,) * len(context.attrs["Tout"])


TABLE: Table = dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), Kernel(call, _infer_declared))
