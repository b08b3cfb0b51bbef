"""Check of the size of an op's outputs before its kernel allocates them.

The shape function computes the size from the shapes and values of the inputs. It is called only if the outputs may be large: if
an input is large, or if a value or attr determines a size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DTYPES, INT32, INT64, DataType
from placesim.core.errors import OpError, PlacesimError
from placesim.graph.graph import Node
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Trait
from placesim.ops.kernels.shapes import ShapeContext
from placesim.ops.process.memory_limit import AllocationRefusal, ProcessMemory, out_of_memory, tensor_bytes

MAX_SPELLING = 64
"""Maximum number of elements of an input whose values are part of the key under which results are cached."""
_MAX_REMEMBERED = 512
_TOO_BIG = ("array is too big", "Maximum allowed dimension exceeded", "Maximum allowed size exceeded")
_ATTRS_OF_SIZE = ("shape", "ksizes")

Output = tuple[tuple[int, ...], DataType, int]
"""Shape, type and bytes of one output."""


class AllocationCheck:
    """Checks that the outputs of a node, or of several equal nodes, fit into the memory of the process."""

    __slots__ = ("_attrs", "_device", "_kernel", "_node", "_remembered", "_spelling", "memory", "spells_size")

    def __init__(self, kernel: Kernel, node: Node, attrs: Attrs, memory: ProcessMemory, device: str) -> None:
        self.memory = memory
        self._device = device
        self._kernel = kernel
        self._node = node
        self._attrs = attrs
        self._spelling = _spelling_inputs(kernel, node)
        self._remembered: dict[Any, tuple[Output, ...]] = {}
        self.spells_size = bool(self._spelling) or any(name in attrs for name in _ATTRS_OF_SIZE)

    def check(self, values: Sequence[Any]) -> None:
        """Raise TensorFlow's ResourceExhaustedError if there is no memory for the outputs of these inputs."""
        needed = 0
        for shape, dtype, size in self._outputs(values):
            needed += size
            if not self.memory.has_room(needed):
                raise out_of_memory(shape, dtype.name, self._device)

    def _outputs(self, values: Sequence[Any]) -> tuple[Output, ...]:
        """Return the outputs that are large enough to matter; results are cached by input shapes and values."""
        compared = [i for i in self._spelling if _is_tensor(values[i]) and values[i].size <= MAX_SPELLING]
        shapes = tuple([getattr(value, "shape", ()) for value in values])
        key = (shapes, tuple([values[i].tobytes() for i in compared]))
        found = self._remembered.get(key)
        if found is None:
            context = _ArrivedInputs(shapes, self._attrs, values)
            found = self._infer(context)
            if context.asked.issubset(compared):
                if len(self._remembered) >= _MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = found
        return found

    def _infer(self, context: ShapeContext) -> tuple[Output, ...]:
        try:
            shapes = tuple(self._kernel.shape(context))
        except (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            return ()  # the kernel will raise its own error
        signature = self._node.signature
        outputs = zip(shapes, signature.output_dtypes, signature.output_is_ref, strict=False)
        known = [
            (shape, dtype, tensor_bytes(shape, dtype))
            for shape, dtype, is_ref in outputs
            if not is_ref and shape is not None and min(shape, default=0) >= 0
        ]
        return tuple(output for output in known if output[2] > self.memory.few)

    def refuse(self, error: Exception) -> OpError:
        """Return TensorFlow's error for a kernel that failed with `error` because a tensor is too large."""
        shape, dtype = getattr(error, "shape", ()), getattr(error, "dtype", None)
        if not isinstance(dtype, str):
            declared = self._node.signature.output_dtypes
            same = (d.name for d in (*declared, *DTYPES.values()) if dtype is not None and d.numpy == dtype)
            dtype = next(same, declared[0].name if declared else "variant")
        return out_of_memory(shape, dtype, self._device)


class _ArrivedInputs(ShapeContext):
    """The inputs of a node that is about to run: the values of all tensors are known."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], attrs: Attrs, values: Sequence[Any]) -> None:
        super().__init__(shapes, attrs)
        self._arrived = values
        self.asked: set[int] = set()

    def known_value(self, index: int) -> np.ndarray[Any, Any] | None:
        self.asked.add(index)
        value = self._arrived[index]
        return np.asarray(value) if _is_tensor(value) else None


def _is_tensor(value: Any) -> bool:
    """Whether a value is a tensor, not a variable or another resource."""
    return isinstance(value, np.ndarray | np.generic)


def _spelling_inputs(kernel: Kernel, node: Node) -> tuple[int, ...]:
    """Return the positions of inputs whose values may determine an output's size: integers, and the bounds of a range."""
    dtypes = node.signature.input_dtypes
    if Trait.SPELLS_SIZE in kernel.traits:
        return tuple(range(len(dtypes)))
    return tuple(i for i, dtype in enumerate(dtypes) if dtype is INT32 or dtype is INT64)


def is_too_big(error: ValueError) -> bool:
    """Whether numpy refused a size that no array can have."""
    return str(error).startswith(_TOO_BIG)


def checked_kernel(kernel: Kernel, check: AllocationCheck | None) -> Kernel:
    """Return a kernel that first checks the size of its outputs, and raises TensorFlow's error if an allocation fails."""
    if check is None:
        return kernel
    compute = kernel.compute
    spells_size = check.spells_size and kernel.direct is None
    few = check.memory.few

    def checked(values: Sequence[Any], *rest: Any) -> Sequence[Any]:
        elements = 0
        for value in values:
            elements += getattr(value, "size", 1)
        if spells_size or elements * elements > few:
            check.check(values)
        try:
            return compute(values, *rest)
        except (MemoryError, AllocationRefusal) as error:
            raise check.refuse(error) from None
        except ValueError as error:
            if is_too_big(error):
                raise check.refuse(error) from None
            raise

    return kernel._replace(compute=checked)
