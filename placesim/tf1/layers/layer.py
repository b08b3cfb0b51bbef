"""`tf.layers.Layer`, whose scopes and variables are made at its first call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, PerDimension, ShapeLike, TensorLike, TypedTensor
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape


class InputSpec:
    """Requirements on a layer's inputs: a rank, its limits, or sizes of axes."""

    def __init__(
        self,
        dtype: DTypeLike | None = None,
        shape: ShapeLike | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int] | None = None,
        **_: object,
    ) -> None:
        self.dtype, self.shape, self.ndim, self.max_ndim, self.min_ndim = dtype, shape, ndim, max_ndim, min_ndim
        self.axes = axes or {}

    def check(self, layer: str, value: TypedTensor) -> None:
        """Raise ValueError for a tensor that does not match."""
        shape = TensorShape(value.shape)
        if shape.ndims is None:
            return
        start = f'Input 0 of layer "{layer}" is incompatible with the layer:'
        full = f"Full shape received: {tuple(shape)}"
        if self.ndim is not None and shape.ndims != self.ndim:
            raise ValueError(f"{start} expected ndim={self.ndim}, found ndim={shape.ndims}. {full}")
        if self.max_ndim is not None and shape.ndims > self.max_ndim:
            raise ValueError(f"{start} expected max_ndim={self.max_ndim}, found ndim={shape.ndims}")
        if self.min_ndim is not None and shape.ndims < self.min_ndim:
            raise ValueError(f"{start} expected min_ndim={self.min_ndim}, found ndim={shape.ndims}. {full}")
        for axis, size in self.axes.items():
            found = shape.as_list()[int(axis)]
            if size is not None and found not in (size, None):
                wanted = f"expected axis {axis} of input shape to have value {size}"
                raise ValueError(f"{start} {wanted}, but received input with shape {shape}")
        if self.shape is not None and not TensorShape(self.shape).is_compatible_with(shape):
            raise ValueError(f"{start} expected shape={self.shape}, found shape={tuple(shape.as_list())}")


class Layer:
    """Base class of layers; subclasses define `build`, which makes variables, and `call`."""

    input_spec: InputSpec | None = None
    uses_resources = False
    """Whether the variables are resources anywhere, as in a Keras layer."""

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: DTypeLike | None = None, **kwargs: Any) -> None:
        self.trainable = trainable
        self.built = False
        self._given_dtype = None if dtype is None else tf.as_dtype(dtype)
        self._given_scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        kwargs.pop("dynamic", None)
        if kwargs:
            raise TypeError("Keyword argument not understood:", next(iter(kwargs)))
        word = word_of(type(self).__name__)
        self._base_name = name or (word if word[:1] != "_" else "private" + word)
        self._name = name or f"{self._base_name}_{next_number(self._base_name)}"
        self._scope: Any = None
        self._variables: list[Any] = []
        self._trainable: list[bool] = []
        self._losses: list[Any] = []
        self._updates: list[Any] = []

    # --- methods that layers override ---

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables for inputs of this shape."""
        self.built = True

    def call(self, inputs: TensorLike, *args: object, **kwargs: object) -> Any:
        """Output of the layer for its inputs."""
        return inputs

    # --- calling ---

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        inputs = _converted(inputs)
        self._enter_first(kwargs.pop("scope", None))
        with self._inside():
            first = _first(inputs)
            if not self.built:
                if self.input_spec is not None and first is not None:
                    self.input_spec.check(self._name, first)
                if self._given_dtype is None and first is not None:
                    self._given_dtype = first.dtype.base_dtype
                self.build(_shapes(inputs))
                self.built = True
            if self.input_spec is not None and first is not None:
                self.input_spec.check(self._name, first)
            outputs = self._finish_call(inputs, self.call(inputs, *args, **kwargs))
            if self._activity_regularizer is not None:
                self._regularize_activity(outputs)
        return outputs

    def _finish_call(self, inputs: Any, outputs: Any) -> Any:
        """The outputs of a call, as the caller gets them; the graph then has a collection of updates, if only an empty one."""
        tf.get_collection_ref("update_ops")
        return outputs

    def apply(self, inputs: TensorLike, *args: object, **kwargs: object) -> Any:
        """Call the layer."""
        return self(inputs, *args, **kwargs)

    def _enter_first(self, scope: object = None) -> None:
        """At the first call, open the layer's variable scope and name scope: the given ones, else unique ones."""
        if self._scope is not None:
            return
        given = scope if scope is not None else self._given_scope
        if self._reuse:
            opened = tf.variable_scope(self._base_name if given is None else given)
        else:
            opened = tf.variable_scope(given, default_name=self._base_name)
        with opened as self._scope:
            pass

    @contextmanager
    def _inside(self) -> Iterator[None]:
        reuse = True if self.built or self._reuse is True else self._reuse
        opened = tf.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False)
        with opened as scope, tf.name_scope(scope.original_name_scope):
            yield

    # --- variables ---

    def add_weight(
        self,
        name: str,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        initializer: object = None,
        regularizer: Callable[[Any], Any] | None = None,
        trainable: bool | None = None,
        constraint: object = None,
        use_resource: bool | None = None,
        synchronization: object = None,
        aggregation: object = None,
        partitioner: object = None,
        **kwargs: object,
    ) -> Any:
        """A variable of the layer: `get_variable` in its scope."""
        self._enter_first()
        dtype = self._given_dtype or tf.float32 if dtype is None else dtype
        trainable = self.trainable and (True if trainable is None else trainable)
        roles = {"synchronization": synchronization, "aggregation": aggregation}
        given = {key: value for key, value in roles.items() if value is not None}
        # a reused variable already has its regularizer's loss
        before = len(tf.get_default_graph().get_operations())
        with self._inside():
            variable = tf.get_variable(
                name,
                shape=TensorShape(shape),
                dtype=tf.as_dtype(dtype),
                initializer=initializer,
                trainable=trainable,
                constraint=constraint,
                partitioner=partitioner,
                use_resource=use_resource or self.uses_resources or None,
                **given,
            )
            is_new = len(tf.get_default_graph().get_operations()) > before
            if regularizer is not None and is_new:
                with tf.name_scope(name + "/Regularizer"):
                    loss = regularizer(variable)
                if loss is not None:
                    self.add_loss(loss)
        self._variables.append(variable)
        self._trainable.append(trainable)
        return variable

    add_variable = add_weight

    def _regularize_activity(self, outputs: object) -> None:
        with tf.name_scope("ActivityRegularizer"):
            for output in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
                loss = self._activity_regularizer(output)
                self.add_loss(loss / tf.cast(tf.shape(output)[0], loss.dtype))

    def add_loss(self, losses: TensorLike, inputs: TensorLike | None = None) -> None:
        """Add losses to the layer's own list, and to the collection of regularization losses."""
        for loss in losses if isinstance(losses, (list, tuple)) else [losses]:
            self._losses.append(loss)
            tf.add_to_collection("regularization_losses", loss)

    def add_update(self, updates: TensorLike, inputs: TensorLike | None = None) -> None:
        """Add updates to the layer's own list, and to the collection of updates that a training step runs."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            op = update.op if isinstance(update, Tensor) else getattr(update, "op", update)
            self._updates.append(op)
            tf.add_to_collection("update_ops", op)

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> Any:
        return None if self._given_dtype is None else self._given_dtype.name

    @property
    def graph(self) -> Any:
        return tf.get_default_graph()

    @property
    def scope_name(self) -> str:
        """The variable scope's name.  Raises ValueError before the first call."""
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self._name}" has not been used yet. The scope name  is '
                "determined the first time the layer instance is called. You must therefore call the layer before querying "
                "`scope_name`."
            )
        return str(self._scope.name)

    @property
    def variables(self) -> list[Any]:
        return self.trainable_variables + self.non_trainable_variables

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        if not self.trainable:
            return []
        return [variable for variable, own in zip(self._variables, self._trainable, strict=True) if own]

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        trained = {id(variable) for variable in self.trainable_variables}
        return [variable for variable in self._variables if id(variable) not in trained]

    non_trainable_weights = non_trainable_variables

    @property
    def losses(self) -> list[Any]:
        return list(self._losses)

    @property
    def updates(self) -> list[Any]:
        return list(self._updates)

    def count_params(self) -> int:
        """Number of elements of all variables."""
        return sum(int(variable.shape.num_elements()) for variable in self.variables)


def word_of(kind: str) -> str:
    """A class's name in snake case, with no underscore in front of digits: `conv2d`."""
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", kind)).lower()


def next_number(base: str) -> int:
    """Count a new layer with this base name.  Return the number of such layers in the graph, including the new one."""
    graph = tf.get_default_graph()
    counts = getattr(graph, "layer_names", None)
    if counts is None:
        counts = graph.layer_names = {}
    counts[base] = counts.get(base, 0) + 1
    return int(counts[base])


def _converted(inputs: TensorLike) -> Any:
    if nest.is_nested(inputs):
        return inputs
    return inputs if isinstance(inputs, Tensor) or hasattr(inputs, "dense_shape") else tf.convert_to_tensor(inputs)


def _first(inputs: Any) -> Any:
    inputs = next(iter(nest.flatten(inputs)), None)
    return inputs if hasattr(inputs, "shape") and hasattr(inputs, "dtype") else None


def _shapes(inputs: TensorLike) -> Any:
    if isinstance(inputs, Mapping):
        return {key: _shapes(item) for key, item in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return [_shapes(item) for item in inputs]
    return TensorShape(inputs.shape) if hasattr(inputs, "shape") else None


def smart_cond(condition: TensorLike, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """Result of one of two functions; a `cond` if the condition is not static."""
    known = smart_constant(condition)
    if known is None:
        return tf.cond(condition, true_fn, false_fn)
    return true_fn() if known else false_fn()


def smart_constant(condition: TensorLike) -> bool | None:
    """Static value of a condition; None if unknown."""
    if isinstance(condition, Tensor):
        value = constant_value(condition)
        return None if value is None else bool(value)
    if hasattr(condition, "_as_graph_element"):
        return None
    return bool(condition)


def sizes(value: PerDimension, count: int, name: str) -> tuple[int, ...]:
    """One number for each dimension, from a number for all dimensions or a list with one for each.  Raises ValueError."""
    if isinstance(value, int):
        return (value,) * count
    try:
        found = tuple(int(size) for size in value)
    except (TypeError, ValueError):
        found = ()
    if len(found) != count:
        raise ValueError(f"The `{name}` argument must be a tuple of {count} integers. Received: {value}")
    return found


def data_format_of(value: str) -> str:
    """A data format in lower case: `channels_last` or `channels_first`.  Raises ValueError for others."""
    found = value.lower()
    if found not in ("channels_first", "channels_last"):
        wanted = 'The `data_format` argument must be one of "channels_first", "channels_last".'
        raise ValueError(f"{wanted} Received: {value}")
    return found


def padding_of(value: str) -> str:
    """A padding in lower case: `valid`, `same` or `causal`.  Raises ValueError for others."""
    found = value.lower() if isinstance(value, str) else value
    if found not in ("valid", "same", "causal"):
        wanted = 'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", only for `Conv1D).'
        raise ValueError(f"{wanted} Received: {found}")
    return str(found)
