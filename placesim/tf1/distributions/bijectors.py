"""`tf.contrib.distributions.bijectors`: invertible functions of random variables, with the determinants of their Jacobians."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.array.shaping import broadcast_static_shape
from placesim.tf1.distributions.distribution import refuse_checks
from placesim.tf1.distributions.event_matrices import EventMatrices
from placesim.tf1.distributions.statistics import softplus_inverse
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape


@dataclass
class _Mapping:
    """Related tensors: an argument, its value, and the inverse's log determinants by event rank."""

    x: Any = None
    y: Any = None
    determinants: dict[int, Any] = field(default_factory=dict)


class Bijector:
    """An invertible function.

    A subclass defines `_forward`, `_inverse`, and one of `_forward_log_det_jacobian` and `_inverse_log_det_jacobian`. Given a
    tensor that `forward` returned, `inverse` returns the original argument without a new op, and vice versa.
    """

    _event_ndims = 0
    """Rank of the values that the function takes."""

    def __init__(
        self,
        graph_parents: Any = None,
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        dtype: Any = None,
        forward_min_event_ndims: int | None = None,
        inverse_min_event_ndims: int | None = None,
        name: str | None = None,
    ) -> None:
        """Raise NotImplementedError for a function that changes the rank."""
        ranks = {rank for rank in (forward_min_event_ndims, inverse_min_event_ndims) if rank is not None}
        if len(ranks) > 1:
            raise not_there("contrib.distributions.bijectors.Bijector that changes the rank", "one that keeps it is")
        if ranks:
            (self._event_ndims,) = ranks
        self.is_constant_jacobian, self.validate_args, self.dtype = is_constant_jacobian, validate_args, dtype
        self.name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()
        self._by_x: dict[Any, _Mapping] = {}
        self._by_y: dict[Any, _Mapping] = {}
        self._constant_determinants: dict[int, Any] = {}

    forward_min_event_ndims: int = read_only("_event_ndims")
    inverse_min_event_ndims: int = read_only("_event_ndims")

    def _forward(self, x: Tensor) -> Any:
        raise NotImplementedError("forward not implemented.")

    def _inverse(self, y: Tensor) -> Any:
        raise NotImplementedError("inverse not implemented")

    def forward_event_shape(self, input_shape: Any) -> TensorShape:
        """Shape of the values of events of a shape."""
        return TensorShape(input_shape)

    def forward_event_shape_tensor(self, input_shape: Any, name: str = "forward_event_shape_tensor") -> Any:
        """`forward_event_shape` as a tensor."""
        with self._scope(name):
            return tf.convert_to_tensor(input_shape, dtype=tf.int32, name="input_shape")

    def inverse_event_shape(self, output_shape: Any) -> TensorShape:
        """Shape of the events whose values have the given shape."""
        return self.forward_event_shape(output_shape)

    def inverse_event_shape_tensor(self, output_shape: Any, name: str = "inverse_event_shape_tensor") -> Any:
        """`inverse_event_shape` as a tensor."""
        return self.forward_event_shape_tensor(output_shape, name)

    def forward(self, x: TensorLike, name: str = "forward") -> Any:
        """The function's values.  Raises TypeError."""
        with self._scope(name):
            mapping = self._mapping(x=self._argument(x, "x"))
            if mapping.y is None:
                mapping.y = self._forward(mapping.x)
            return self._keep(mapping).y

    def inverse(self, y: TensorLike, name: str = "inverse") -> Any:
        """The inverse function's values.  Raises TypeError."""
        with self._scope(name):
            mapping = self._mapping(y=self._argument(y, "y"))
            if mapping.x is None:
                mapping.x = self._inverse(mapping.y)
            return self._keep(mapping).x

    def inverse_log_det_jacobian(self, y: TensorLike, event_ndims: int, name: str = "inverse_log_det_jacobian") -> Any:
        """Logarithm of the determinant of the inverse's Jacobian, for events of rank `event_ndims`.

        Raises TypeError, and ValueError if the rank is less than the function's.
        """
        with self._scope(name):
            if event_ndims in self._constant_determinants:
                return self._constant_determinants[event_ndims]
            mapping = self._mapping(y=self._argument(y, "y"))
            self._check_rank(event_ndims)
            if event_ndims not in mapping.determinants:
                if (own := getattr(self, "_inverse_log_det_jacobian", None)) is not None:
                    found = self._reduced(mapping.y, own(mapping.y), event_ndims)
                else:
                    mapping.x = self._inverse(mapping.y) if mapping.x is None else mapping.x
                    found = self._reduced(mapping.x, -self._jacobian("_forward_log_det_jacobian")(mapping.x), event_ndims)
                self._keep_determinant(mapping, event_ndims, found)
            return mapping.determinants[event_ndims]

    def forward_log_det_jacobian(self, x: TensorLike, event_ndims: int, name: str = "forward_log_det_jacobian") -> Any:
        """Logarithm of the determinant of the Jacobian, for events of rank `event_ndims`.

        Raises TypeError, and ValueError if the rank is less than the function's.
        """
        with self._scope(name):
            self._check_rank(event_ndims)
            if event_ndims in self._constant_determinants:
                return -1.0 * self._constant_determinants[event_ndims]
            mapping = self._mapping(x=self._argument(x, "x"))
            if event_ndims not in mapping.determinants:
                if (own := getattr(self, "_forward_log_det_jacobian", None)) is not None:
                    found = self._reduced(mapping.x, -own(mapping.x), event_ndims)
                else:
                    mapping.y = self._forward(mapping.x) if mapping.y is None else mapping.y
                    found = self._reduced(mapping.y, self._jacobian("_inverse_log_det_jacobian")(mapping.y), event_ndims)
                self._keep_determinant(mapping, event_ndims, found)
            return -mapping.determinants[event_ndims]

    def _jacobian(self, method: str) -> Any:
        """A method of the subclass.  Raises NotImplementedError without it."""
        own = getattr(self, method, None)
        if own is None:
            raise NotImplementedError(f"{method.strip('_')} not implemented.")
        return own

    def _keep_determinant(self, mapping: _Mapping, event_ndims: int, found: Any) -> None:
        self._keep(mapping).determinants[event_ndims] = found
        if self.is_constant_jacobian:
            self._constant_determinants[event_ndims] = found

    def _reduced(self, value: Any, determinant: Any, event_ndims: int) -> Any:
        """The sum of the log determinants over the axes of the event beyond the function's rank."""
        rank = tf.rank(value)
        sizes = tf.shape(value)[rank - event_ndims : rank - self._event_ndims]
        total = tf.ones(sizes, determinant.dtype) * determinant
        extra = event_ndims - self._event_ndims
        found = tf.reduce_sum(total, axis=[-axis for axis in range(1, extra + 1)])
        if value.shape.ndims is not None and determinant.shape.ndims is not None:
            event = value.shape[value.shape.ndims - event_ndims : value.shape.ndims - self._event_ndims]
            known = broadcast_static_shape(determinant.shape, event)
            found.set_shape(known[: len(known.as_list()) - extra])
        return found

    @contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        with tf.name_scope(self.name), tf.name_scope(name):
            yield

    def _argument(self, value: Any, name: str) -> Any:
        found = tf.convert_to_tensor(value, name=name)
        if self.dtype is not None and self.dtype.base_dtype != found.dtype.base_dtype:
            raise TypeError(f"Input had dtype {self.dtype} but expected {found.dtype}.")
        return found

    def _check_rank(self, event_ndims: int) -> None:
        tf.convert_to_tensor(event_ndims, name="event_ndims")
        if event_ndims < self._event_ndims:
            raise ValueError(f"event_ndims ({event_ndims}) must be larger than min_event_ndims ({self._event_ndims})")

    def _mapping(self, x: Any = None, y: Any = None) -> _Mapping:
        known = self._by_y.get(y) if x is None else self._by_x.get(x)
        return known or _Mapping(x, y)

    def _keep(self, mapping: _Mapping) -> _Mapping:
        for table, key in ((self._by_x, mapping.x), (self._by_y, mapping.y)):
            if key is not None:
                table[key] = mapping
        return mapping


class _VolumePreserving(Bijector):
    """Base class of functions whose Jacobian has the determinant 1."""

    def __init__(self, validate_args: bool, name: str) -> None:
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, name=name)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        return tf.constant(0.0, dtype=y.dtype.base_dtype)

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        return tf.constant(0.0, dtype=x.dtype.base_dtype)


class Identity(_VolumePreserving):
    """The function that returns its argument."""

    def __init__(self, validate_args: bool = False, name: str = "identity") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Tensor) -> Any:
        return x

    def _inverse(self, y: Tensor) -> Any:
        return y


class Exp(Bijector):
    """The exponential function."""

    def __init__(self, validate_args: bool = False, name: str = "exp") -> None:
        super().__init__(validate_args=validate_args, name=name)
        with self._scope("init"):
            tf.convert_to_tensor(0.0, name="power")

    def _forward(self, x: Tensor) -> Any:
        return tf.exp(x)

    def _inverse(self, y: Tensor) -> Any:
        return tf.log(y)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        return -1.0 * tf.log(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        return x


class Sigmoid(Bijector):
    """The logistic function."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid") -> None:
        super().__init__(validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Any:
        return tf.sigmoid(x)

    def _inverse(self, y: Tensor) -> Any:
        return tf.log(y) - tf.log1p(-y)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        return -tf.log(y) - tf.log1p(-y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        return -tf.nn.softplus(-x) - tf.nn.softplus(x)


class Softplus(Bijector):
    """The function `hinge_softness * softplus(x / hinge_softness)`."""

    def __init__(self, hinge_softness: Any = None, validate_args: bool = False, name: str = "softplus") -> None:
        """Raise NotImplementedError for checks."""
        if validate_args:
            raise refuse_checks("bijectors.Softplus")
        with tf.name_scope(name, values=[hinge_softness]):
            self.hinge_softness = hinge_softness
            if hinge_softness is not None:
                self.hinge_softness = tf.convert_to_tensor(hinge_softness, name="hinge_softness")
        super().__init__(name=name)

    def _scaled(self, function: Callable[[Any], Any], value: Tensor) -> Any:
        if self.hinge_softness is None:
            return function(value)
        softness = tf.cast(self.hinge_softness, value.dtype)
        return softness * function(value / softness)

    def _unscaled(self, value: Tensor) -> Any:
        return value if self.hinge_softness is None else value / tf.cast(self.hinge_softness, value.dtype)

    def _forward(self, x: Tensor) -> Any:
        return self._scaled(tf.nn.softplus, x)

    def _inverse(self, y: Tensor) -> Any:
        return self._scaled(softplus_inverse, y)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        return -tf.log(-tf.expm1(-self._unscaled(y)))

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        return -tf.nn.softplus(-self._unscaled(x))


class AffineScalar(Bijector):
    """Numbers times `scale`, plus `shift`."""

    def __init__(self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_scalar") -> None:
        """Raise NotImplementedError for checks."""
        if validate_args:
            raise refuse_checks("bijectors.AffineScalar")
        self.name = name
        with self._scope("init"):
            self.shift = None if shift is None else tf.convert_to_tensor(shift, name="shift")
            self.scale = None if scale is None else tf.convert_to_tensor(scale, name="scale")
        super().__init__(is_constant_jacobian=True, name=name)

    def _forward(self, x: Tensor) -> Any:
        y = tf.identity(x)
        y = y if self.scale is None else y * self.scale
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Tensor) -> Any:
        x = tf.identity(y)
        x = x if self.shift is None else x - self.shift
        return x if self.scale is None else x / self.scale

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        return tf.constant(0.0, dtype=x.dtype.base_dtype) if self.scale is None else tf.log(tf.abs(self.scale))


class Permute(_VolumePreserving):
    """Vectors with their components in another order."""

    _event_ndims = 1

    def __init__(self, permutation: Any, validate_args: bool = False, name: str | None = None) -> None:
        """Raise TypeError for places that are no integers, and ValueError for places that are no permutation."""
        with tf.name_scope(name, "permute", values=[permutation]):
            self.permutation = tf.convert_to_tensor(permutation, name="permutation")
            if not self.permutation.dtype.is_integer:
                raise TypeError(f"permutation.dtype ({self.permutation.dtype.name}) should be `int`-like.")
            known = tf.get_static_value(self.permutation)
            if known is None and validate_args:
                raise refuse_checks("bijectors.Permute")
            if known is not None and {*known.tolist()} != {*range(known.size)}:
                raise ValueError("Permutation over `d` must contain exactly one of each of `{0, 1, ..., d}`.")
            super().__init__(validate_args, name or "permute")

    def _forward(self, x: Tensor) -> Any:
        return tf.gather(x, self.permutation, axis=-1)

    def _inverse(self, y: Tensor) -> Any:
        return tf.gather(y, tf.invert_permutation(self.permutation), axis=-1)


class Invert(Bijector):
    """The inverse of another function."""

    def __init__(self, bijector: Any, validate_args: bool = False, name: str | None = None) -> None:
        self.bijector, self._event_ndims = bijector, bijector.forward_min_event_ndims
        super().__init__(
            None, bijector.is_constant_jacobian, validate_args, bijector.dtype, name=name or f"invert_{bijector.name}"
        )
        self._forward, self._inverse = bijector._inverse, bijector._forward  # type: ignore[method-assign]
        for own, other in (("forward", "inverse"), ("inverse", "forward")):
            if (found := getattr(bijector, f"_{other}_log_det_jacobian", None)) is not None:
                setattr(self, f"_{own}_log_det_jacobian", found)


class Chain(Bijector):
    """The composition of functions in a list; the last function is applied first."""

    def __init__(self, bijectors: Any = None, validate_args: bool = False, name: str | None = None) -> None:
        """Raise ValueError for functions of different types."""
        self.bijectors = bijectors or ()
        types = {one.dtype for one in self.bijectors} - {None}
        if len(types) > 1:
            raise ValueError(f"incompatible dtypes: {[*types]}")
        self._event_ndims = max((one.forward_min_event_ndims for one in self.bijectors), default=0)
        is_constant = all(one.is_constant_jacobian for one in self.bijectors)
        name = name or ("_of_".join(["chain", *(one.name for one in self.bijectors)]) if self.bijectors else "identity")
        super().__init__(None, is_constant, validate_args, types.pop() if types else None, name=name)

    def _forward(self, x: Tensor) -> Any:
        return reduce(lambda found, one: one.forward(found), reversed(self.bijectors), x)

    def _inverse(self, y: Tensor) -> Any:
        return reduce(lambda found, one: one.inverse(found), self.bijectors, y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        return self._total(x, "forward", [*self.bijectors][::-1])

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        return self._total(y, "inverse", self.bijectors)

    def _total(self, value: Tensor, direction: str, bijectors: Sequence[Any]) -> Any:
        """The sum of the functions' log determinants, each at the output of the functions applied before it."""
        value = tf.convert_to_tensor(value, name="x" if direction == "forward" else "y")
        total = tf.cast(0.0, dtype=value.dtype.base_dtype)
        sizes = None
        if bijectors and not value.shape.is_fully_defined():
            sizes = tf.shape(value)[tf.rank(value) - self._event_ndims :]
        for one in bijectors:
            total += getattr(one, f"{direction}_log_det_jacobian")(value, event_ndims=self._event_ndims)
            if not value.shape.is_fully_defined():
                sizes = getattr(one, f"{direction}_event_shape_tensor")(sizes)
                tf.size(sizes)
            value = getattr(one, direction)(value)
        return total


class AffineLinearOperator(Bijector):
    """Vectors times a `LinearOperator`, plus `shift`."""

    _event_ndims = 1

    def __init__(
        self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_linear_operator"
    ) -> None:
        """Raise TypeError for different types of shift and scale, and ValueError for a scale that may be singular."""
        self.name = name
        with self._scope("init"):
            dtype = tf.float32
            if shift is not None:
                shift = tf.convert_to_tensor(shift, name="shift")
                dtype = shift.dtype.base_dtype
            if scale is not None:
                if shift is not None and dtype != scale.dtype.base_dtype:
                    raise TypeError(f"shift.dtype({shift.dtype}) is incompatible with scale.dtype({scale.dtype}).")
                if validate_args and not scale.is_non_singular:
                    raise ValueError("Scale matrix must be non-singular.")
                dtype = scale.dtype
            batch = 0 if scale is None else None if scale.tensor_rank is None else scale.tensor_rank - 2
            self.shift, self.scale, self._matrices = shift, scale, EventMatrices(batch)
        super().__init__(None, True, validate_args, dtype, name=name)

    def _forward(self, x: Tensor) -> Any:
        y = x
        if self.scale is not None:
            y, samples = self._matrices.from_events(y)
            with tf.control_dependencies([self.scale.assert_non_singular()] if self.validate_args else []):
                y = self.scale.matmul(y)
            y = self._matrices.to_events(y, samples)
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Tensor) -> Any:
        x = y if self.shift is None else y - self.shift
        if self.scale is None:
            return x
        x, samples = self._matrices.from_events(x)
        return self._matrices.to_events(self.scale.solve(x), samples)

    def _forward_log_det_jacobian(self, x: Tensor) -> Any:
        if self.scale is None:
            return tf.constant(0.0, dtype=x.dtype.base_dtype)
        with tf.control_dependencies([self.scale.assert_non_singular()] if self.validate_args else []):
            return self.scale.log_abs_determinant()
