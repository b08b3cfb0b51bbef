"""Conversion of scalar resources and variants to arrays of objects, for kernels that take arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import RESOURCE, VARIANT
from placesim.graph.graph import Signature
from placesim.ops.kernels.kernel import Kernel, Trait


def wrap_scalar_objects(kernel: Kernel, signature: Signature) -> Kernel:
    """Return a kernel whose resource and variant inputs are converted to arrays, and outputs back."""
    if Trait.TAKES_OBJECTS not in kernel.traits:
        return kernel
    is_object = [dtype in (RESOURCE, VARIANT) for dtype in signature.input_dtypes]
    if not any(is_object):
        return kernel
    compute = kernel.compute

    def on_arrays(inputs: Sequence[Any], *rest: Any) -> Sequence[Any]:
        arrays = tuple(_boxed(value) if boxed else value for value, boxed in zip(inputs, is_object, strict=True))
        return tuple(map(_unboxed, compute(arrays, *rest)))

    return kernel._replace(compute=on_arrays, direct=None)


def _boxed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value
    box = np.empty((), object)
    box[()] = value
    return box


def _unboxed(value: Any) -> Any:
    is_box = isinstance(value, np.ndarray) and value.dtype == object and not value.ndim
    return value[()] if is_box else value
