"""Checks of `tf.gradients` on the types and shapes of gradients."""

from __future__ import annotations

from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.types import dtypes

tf = namespace("")
_TRAINABLE_TYPES = "float16 float32 float64 bfloat16 complex64 complex128 resource variant float8_e5m2 float8_e4m3fn"
_TRAINABLE = frozenset(_TRAINABLE_TYPES.split())


def is_trainable(tensor: Tensor) -> bool:
    """Whether a tensor can have a gradient, by its type.  For a list of tensors, the type of its elements counts."""
    name = tensor.dtype.base_dtype.name
    if name == "variant":
        from placesim.tf1.functions.variants import element_type

        held = element_type(tensor)
        # a list whose elements are unknown may have gradients
        return held is None or dtypes.of(held).name in _TRAINABLE
    return name in _TRAINABLE


NO_GRADIENT = (
    "No gradient defined for operation'{op.name}' (op type: {op.type}). In general every operation must have an associated "
    "`@tf.RegisterGradient` for correct autodiff, which this op is lacking. If you want to pretend this operation is a "
    "constant in your program, you may insert `tf.stop_gradient`. This can be useful to silence the error in cases where you "
    "know gradients are not needed, e.g. the forward pass of tf.custom_gradient. Please see more details in "
    "https://www.tensorflow.org/api_docs/python/tf/custom_gradient."
)


def check_seed(y: Tensor, grad: Tensor) -> None:
    """Raise TypeError if the type of a given gradient does not suit its y."""
    of_y, given = y.dtype, grad.dtype
    # an integer y passes this check: it simply receives no gradient
    if of_y.is_floating or of_y.is_integer:
        suits, kind, expected = given.is_floating or given.is_integer, "real or integer-valued", "real or integer"
    elif of_y.is_complex:
        suits, kind, expected = given.is_complex, "complex-valued", "real"  # as TensorFlow's message says
    elif of_y.name == "variant":
        suits, kind, expected = given.name == "variant", "variant", "variant"
    elif of_y.name == "resource":
        return
    else:
        raise TypeError(f"Tensor {y} with type {of_y.name} must be numeric to obtain a default gradient")
    if not suits:
        raise TypeError(f"Gradient type {given.name} generated for {kind} tensor {y} with type {of_y.name} must be {expected}")


def check_shape(op: Operation, index: int, tensor: Tensor, grad: Tensor) -> None:
    """Set a gradient's static shape to its tensor's.  Raises ValueError if they conflict."""
    if not isinstance(grad, Tensor) or tensor.dtype.base_dtype.name == "resource":
        return
    try:
        # this merges both shapes: the gradient may know more than the tensor
        grad.set_shape(tensor.shape)
    except ValueError:
        raise ValueError(
            "Incompatible shapes between op input and calculated input gradient. Forward operation: "
            f"{op.name}. Input index: {index}. Original input shape: {tensor.shape}. Calculated input gradient shape: "
            f"{grad.shape}"
        ) from None
