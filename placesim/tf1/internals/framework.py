"""Classes, checks and names of TensorFlow's own `framework` and `ops` modules."""

from __future__ import annotations

import re
from abc import ABC
from typing import Any

from placesim.tf1.array.shaping import broadcast_static_shape
from placesim.tf1.distribute.contexts import skip_summary as skip_summary
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.variables.variable import Variable

broadcast_shape = broadcast_static_shape


class CompositeTensor(ABC):  # noqa: B024 - a class of classes, without methods
    """Class of values that consist of several tensors."""


class DenseTensorLike(ABC):  # noqa: B024 - as above
    """Class of values that are used as one tensor: tensors, variables, and classes that packages register."""


class _TensorLike(ABC):  # noqa: B024 - as above
    """Class of tensors and of sparse values."""


class EagerTensor:
    """Class of the tensors of eager mode; there are none."""


CompositeTensor.register(IndexedSlices)
CompositeTensor.register(SparseTensor)
DenseTensorLike.register(Tensor)
DenseTensorLike.register(Variable)
_TensorLike.register(Tensor)
_TensorLike.register(IndexedSlices)
_TensorLike.register(SparseTensor)


def is_dense_tensor_like(t: object) -> bool:
    """Whether a value is used as one tensor."""
    return isinstance(t, DenseTensorLike)


def register_dense_tensor_like_type(tensor_type: type) -> None:
    """Register a class whose values are used as tensors."""
    DenseTensorLike.register(tensor_type)


def set_shapes_for_outputs(op: Operation) -> None:
    """Do nothing: a new op has the shapes of its outputs."""


# --- names of scopes ---


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """A name without the scope, also behind `^` and `loc:@`."""
    if not export_scope:
        return name
    return re.sub(rf"(\^|loc:@|^){re.escape(export_scope.rstrip('/'))}/+", r"\1", name, count=1)


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """A name in the scope, also behind `^` and `loc:@`."""
    return re.sub(r"^(\^|loc:@|)", rf"\1{import_scope.rstrip('/')}/", name) if import_scope else name


# --- modes that placesim does not have ---


def enabled() -> bool:
    """Return False: version 2's behaviour is off."""
    return False


def do_not_convert(func: Any = None) -> Any:
    """Decorator, with or without arguments, that returns the function unchanged: there is no AutoGraph."""
    return do_not_convert if func is None else func


ENABLE_CONTROL_FLOW_V2 = False


def GraphOrParentsInXlaContext(graph: Graph) -> bool:  # noqa: N802 (TensorFlow's name)
    """Return False: there is no XLA."""
    return False


def GetContainingXLAContext(ctxt: object) -> None:  # noqa: N802 (TensorFlow's name)
    """Return None: there is no XLA."""


def is_xla_enabled() -> bool:
    """Return False: there is no XLA."""
    return False
