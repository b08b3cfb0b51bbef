"""`StagingArea` of `tensorflow.python.ops.data_flow_ops`: values stored between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types.shapes import TensorShape


class StagingArea:
    """A store of tuples of tensors on one device.

    Its `put`, `get` and `peek` are colocated with the NoOp `SHARED_NAME_root/NoOp`, which has the device scope of the area.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Raise ValueError if there are not as many shapes or names as types, and for a negative limit."""
        self.dtypes = [tf.as_dtype(dtype) for dtype in dtypes]
        for given, word in ((shapes, "shapes"), (names, "names")):
            if given is not None and len(given) != len(self.dtypes):
                raise ValueError(f"StagingArea {word} must be the same length as dtypes")
        if capacity < 0 or memory_limit < 0:
            raise ValueError("StagingArea capacity and memory_limit must be 0 or more")
        self.shapes = [TensorShape(None)] * len(self.dtypes) if shapes is None else [TensorShape(shape) for shape in shapes]
        self.names = names
        self.capacity, self.memory_limit = capacity, memory_limit
        self.name = tf.get_default_graph().unique_name("StagingArea") if shared_name is None else shared_name
        with tf.name_scope(f"{self.name}_root"):
            self._root = tf.no_op()

    def _attrs(self) -> dict[str, Any]:
        return {
            "dtypes": self.dtypes,
            "shared_name": self.name,
            "capacity": self.capacity,
            "memory_limit": self.memory_limit,
        }

    def put(self, values: Any, name: str | None = None) -> Any:
        """Make an op that stores a tuple, given as a list or one tensor, or as a mapping if the area has names.

        Raises ValueError for a wrong number of tensors, wrong names or incompatible shapes.
        """
        with tf.name_scope(name, f"{self.name}_put", values if isinstance(values, (list, tuple)) else [values]) as scope:
            given = self._listed(values)
            tensors = [
                tf.convert_to_tensor(value, dtype=dtype, name=f"component_{i}")
                for i, (value, dtype) in enumerate(zip(given, self.dtypes, strict=True))
            ]
            for tensor, shape in zip(tensors, self.shapes, strict=True):
                tensor.shape.assert_is_compatible_with(shape)
            with tf.colocate_with(self._root):
                limits = {"capacity": self.capacity, "memory_limit": self.memory_limit}
                return gen("Stage")(tensors, shared_name=self.name, name=scope, **limits)

    def _listed(self, values: TensorLike) -> list[Any]:
        if isinstance(values, Mapping):
            if not self.names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if set(values) != set(self.names):
                raise ValueError(f"Staging area has names {list(self.names)}, and the values have {sorted(values)}")
            return [values[key] for key in self.names]
        if self.names:
            raise ValueError("You must enqueue a dictionary in a staging area with names")
        listed = as_list(values)
        if len(listed) != len(self.dtypes):
            raise ValueError(f"Unexpected number of inputs {len(listed)} vs {len(self.dtypes)}")
        return listed

    def get(self, name: str | None = None) -> Any:
        """The tuple that was stored first, as a list of tensors, or as a dictionary if the area has names."""
        with tf.colocate_with(self._root):
            found = gen("Unstage")(name=f"{self.name}_get" if name is None else name, **self._attrs())
        return self._given(found)

    def peek(self, index: object, name: str | None = None) -> Any:
        """The tuple at an index, without removing it."""
        with tf.colocate_with(self._root):
            found = gen("StagePeek")(index=index, name=f"{self.name}_peek" if name is None else name, **self._attrs())
        return self._given(found)

    def _given(self, tensors: Sequence[Any]) -> Any:
        for tensor, shape in zip(tensors, self.shapes, strict=True):
            tensor.set_shape(shape)
        found = list(tensors)
        # a NoOp shows the current device; if it is not the area's, Identities copy the tensors there
        if tf.no_op().device != self._root.device:
            found = [tf.identity(tensor) for tensor in found]
        return dict(zip(self.names, found, strict=True)) if self.names else found

    def size(self, name: str | None = None) -> Any:
        """Number of stored tuples."""
        return gen("StageSize")(name=f"{self.name}_size" if name is None else name, **self._attrs())

    def clear(self, name: str | None = None) -> Any:
        """Make an op that removes all tuples."""
        return gen("StageClear")(name=f"{self.name}_clear" if name is None else name, **self._attrs())


__all__ = ["StagingArea"]
