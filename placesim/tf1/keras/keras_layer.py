"""`tf.keras.layers.Layer`, the calls of layers on a model's tensors, and layers for a model's other ops."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.keras import activations, backend, regularizers
from placesim.tf1.layers import layer
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.initializers import keras_get

OF_INPUTS = ("input_shape", "input_dim", "batch_input_shape", "batch_size", "input_length", "weights", "autocast")


class Layer(layer.Layer):
    """Base class of Keras layers, which have a name scope and resource variables, but no variable scope."""

    supports_masking = False
    """Whether the outputs have the mask of the inputs."""
    _constructor: partial[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made._constructor = partial(cls, *args, **kwargs)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        for nested in _layers_in(value):
            nested.uses_resources = True
        super().__setattr__(name, value)

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: DTypeLike | None = None, **kwargs: Any) -> None:
        self.batch_input_shape = _batch_shape({key: kwargs.pop(key) for key in OF_INPUTS if key in kwargs})
        super().__init__(trainable, name or _unique_name(type(self).__name__), dtype, **kwargs)
        self._regularized: list[tuple[Any, Callable[[Any], Any]]] = []
        self._mask: Any = None

    def clone(self, **changes: object) -> Any:
        """Make a layer with the arguments and the name of this one, except for changed arguments."""
        given = (self._constructor.args, self._constructor.keywords)
        args, kwargs = nest.map_structure(lambda arg: arg.clone() if isinstance(arg, Layer) else arg, given)
        return type(self)(*args, **kwargs | {"name": self.name} | changes)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; a call inside another layer's has its `training`, unless it is given.

        A layer that takes a mask gets the mask of the inputs.
        """
        given = dict(kwargs)
        parameters = inspect.signature(self.call).parameters
        training = kwargs.get("training")
        if training is None and _calls.training[-1] is not None:
            training = _calls.training[-1]
            if "training" in parameters:
                kwargs["training"] = training
        self._mask = kwargs["mask"] if kwargs.get("mask") is not None else _mask_of(inputs)
        if self._mask is not None and "mask" in parameters:
            kwargs["mask"] = self._mask
        add_op_layers(inputs)
        _calls.training.append(training)
        try:
            outputs = super().__call__(inputs, *args, **kwargs)
        finally:
            _calls.training.pop()
        record_call(self, (inputs, *args), given, outputs)
        return outputs

    def _finish_call(self, inputs: object, outputs: object) -> Any:
        """The outputs with their masks.

        An output that is an input of a model is copied, because its history belongs to another layer.
        """
        if all_of_models(inputs):
            own = {id(value) for value in nest.flatten(inputs)}
            outputs = nest.map_structure(lambda value: self._copied(value) if id(value) in own else value, outputs)
        flat = nest.flatten(outputs)
        if any(getattr(value, "_keras_mask", None) is None for value in flat):
            # outputs without a mask may follow
            for value, mask in zip(flat, nest.flatten(self.compute_mask(inputs, self._mask)), strict=False):
                if mask is not None:
                    value._keras_mask = mask
        return outputs

    def _copied(self, value: TensorLike) -> Any:
        with tf.name_scope(self.name):
            return tf.identity(value)

    def compute_mask(self, inputs: object, mask: object = None) -> Any:
        """The mask of the outputs."""
        return mask if self.supports_masking else None

    def _enter_first(self, scope: object = None) -> None:
        """Do nothing: Keras layers use no variable scope."""

    @contextmanager
    def _inside(self) -> Iterator[None]:
        with tf.name_scope(self._name):
            yield

    def add_weight(  # type: ignore[override]
        self,
        name: str | None = None,
        shape: ShapeLike | None = None,
        dtype: Any = None,
        initializer: object = None,
        regularizer: object = None,
        trainable: bool | None = None,
        constraint: object = None,
        **_: object,
    ) -> Any:
        """A variable of the layer."""
        dtype = tf.as_dtype(dtype or self._given_dtype or tf.float32)
        if initializer is None:
            initializer = "glorot_uniform" if dtype.is_floating else "zeros"
        make, sizes = keras_get(initializer), TensorShape(() if shape is None else shape).as_list()
        trainable = True if trainable is None else trainable
        variable = tf.Variable(
            lambda: make(sizes, dtype=dtype),
            name=name or "Variable",
            dtype=dtype,
            trainable=trainable,
            use_resource=True,
            constraint=constraint,
        )
        self._variables.append(variable)
        self._trainable.append(trainable)
        vars(tf.get_default_graph()).setdefault("keras_variables", []).append(variable)
        if regularizer is not None:
            self._regularized.append((variable, regularizers.get(regularizer)))
        return variable

    def add_loss(self, losses: TensorLike, inputs: TensorLike | None = None, **_: object) -> None:
        """Add losses to the layer's own list."""
        self._losses += losses if isinstance(losses, (list, tuple)) else [losses]

    def add_update(self, updates: TensorLike, inputs: TensorLike | None = None) -> None:
        """Add updates to the layer's own list."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            self._updates.append(getattr(update, "op", update))

    @property
    def trainable(self) -> bool:
        return self._is_trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._is_trainable = value
        for nested in self._nested:
            nested.trainable = value

    @property
    def _nested(self) -> list[layer.Layer]:
        """The layers in the attributes, in order; also those in lists, tuples and dictionaries."""
        return list(dict.fromkeys(one for value in vars(self).values() for one in _layers_in(value)))

    def _with_nested(self, own: list[Any], name: str) -> list[Any]:
        """This layer's items, and the items in the property `name` of nested layers."""
        return own + [item for nested in self._nested for item in getattr(nested, name)]

    @property
    def trainable_variables(self) -> list[Any]:
        return self._with_nested(super().trainable_variables, "trainable_variables") if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self._with_nested(super().non_trainable_variables, "non_trainable_variables" if self.trainable else "weights")

    trainable_weights, non_trainable_weights = trainable_variables, non_trainable_variables

    @property
    def losses(self) -> list[Any]:
        """Losses of the layer and of nested layers. Losses of regularizers are built at each access."""
        found = list(self._losses)
        for variable, regularizer in self._regularized:
            with tf.name_scope(variable.op.name + "/Regularizer"):
                found.append(regularizer(variable))
        return self._with_nested(found, "losses")

    @property
    def updates(self) -> list[Any]:
        return self._with_nested(super().updates, "updates")


def _layers_in(value: object) -> list[layer.Layer]:
    return [leaf for leaf in nest.flatten(value) if isinstance(leaf, layer.Layer)]


class _Calls(threading.local):
    """The `training` of a thread's unfinished calls, outermost first: a strategy's replicas run in threads that alternate."""

    def __init__(self) -> None:
        self.training: list[Any] = [None]


_calls = _Calls()


def is_in_call() -> bool:
    """Whether the thread is in a layer's call."""
    return len(_calls.training) > 1


def _batch_shape(given: Mapping[str, Any]) -> tuple[int | None, ...] | None:
    """The shape of a first layer's inputs, from the layer's arguments; None without them."""
    if given.get("batch_input_shape") is not None:
        return tuple(given["batch_input_shape"])
    shape = given.get("input_shape")
    if shape is None and given.get("input_dim") is not None:
        shape = (given["input_dim"],)
    return None if shape is None else (given.get("batch_size"), *shape)


def _mask_of(inputs: object) -> Any:
    """The masks of tensors, in their structure; None if no tensor has one."""
    masks = [getattr(value, "_keras_mask", None) for value in nest.flatten(inputs)]
    return None if all(mask is None for mask in masks) else nest.pack_sequence_as(inputs, masks)


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """A call of a layer on tensors of a model: its arguments and outputs."""

    layer: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: object

    @property
    def inputs(self) -> list[Any]:
        """The model's tensors among the arguments, in order."""
        return [value for value in nest.flatten((self.args, self.kwargs)) if hasattr(value, "keras_call")]


def all_of_models(inputs: object) -> bool:
    """Whether all tensors come from `keras.Input` through layers alone."""
    flat = nest.flatten(inputs)
    return bool(flat) and all(hasattr(value, "keras_call") for value in flat)


def record_call(called: Layer, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: object) -> None:
    """Note the call at its outputs, if its inputs are tensors of a model."""
    if all_of_models(args[0]) or isinstance(called, InputLayer):
        call = LayerCall(called, args, kwargs, outputs)
        for value in nest.flatten(outputs):
            value.keras_call = call


def _unique_name(kind: str) -> str:
    """`dense`, `dense_1`, ...: numbered per graph together with `tf.layers`."""
    word = layer.word_of(kind)
    number = layer.next_number(word)
    return word if number == 1 else f"{word}_{number - 1}"


_READ = {"activation": activations.get, "regularizer": regularizers.get, "initializer": keras_get}


def read_argument(name: str, value: object) -> Any:
    """The value of a layer's argument: activations, regularizers and initializers may be given by their names."""
    read = _READ.get(name.rpartition("_")[2])
    if read is None or name == "activity_regularizer" or (value is None and read is not activations.get):
        return value
    return read(value)


def named_arguments(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a constructor by name.  Raises TypeError for too many, and for one that is given twice."""
    if len(args) > len(names):
        raise TypeError(f"__init__() got {len(args) - len(names)} positional arguments too many")
    positional = dict(zip(names, args, strict=False))
    for name in positional:
        if name in kwargs:
            raise TypeError(f"__init__() got multiple values for argument {name!r}")
    return positional | dict(kwargs)


class InputLayer(Layer):
    """A placeholder for a model's inputs."""

    def __init__(
        self,
        input_shape: ShapeLike | None = None,
        batch_size: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
        batch_input_shape: ShapeLike | None = None,
        **_: object,
    ) -> None:
        if batch_input_shape is None:
            batch_input_shape = (batch_size, *(input_shape if isinstance(input_shape, (list, tuple)) else (input_shape,)))
        super().__init__(name=name or f"input_{layer.next_number('input')}")
        self.batch_input_shape, self.built = tuple(TensorShape(batch_input_shape).as_list()), True
        self.output = tf.placeholder(dtype or tf.float32, batch_input_shape, name=self.name)
        vars(tf.get_default_graph()).setdefault("keras_inputs", []).append(self.output)
        record_call(self, (None,), {}, self.output)


# --- ops between layers ---


class TensorFlowOpLayer(Layer):
    """An op with tensors of a model as inputs; the other inputs are constants, by position."""

    def __init__(self, operation: Operation, constants: dict[int, Any]) -> None:
        super().__init__(name=f"tf_op_layer_{operation.name}")
        self._operation, self._constants = operation, constants
        self.built = True

    def call(self, inputs: object, *args: object, **kwargs: object) -> Any:
        graph, given, own = tf.get_default_graph(), nest.flatten(inputs), self._operation
        name = graph.unique_name(own.name)
        for position, value in sorted(self._constants.items()):
            given.insert(position, tf.constant(value, name=own.inputs[position].op.name))
        attrs = {**own.node.attrs, "_cloned": True}
        outputs = graph.create_op(own.type, given, name=f"{name}/", attrs=attrs).outputs
        return outputs[0] if len(outputs) == 1 else outputs


def add_op_layers(values: object) -> None:
    """Make layers of the ops between these tensors and tensors of a model, unless a layer's call is running."""
    # the walk over a tensor's history is long, and in vain in a graph without models' inputs
    if is_in_call() or not hasattr(tf.get_default_graph(), "keras_inputs"):
        return
    for value in nest.flatten(values):
        if _is_of_model(value):
            _add_op_layer(value)


def _is_of_model(value: object) -> bool:
    """Whether a tensor is one of a model, or was computed from one."""
    waiting, seen = [value], set()
    while waiting:
        tensor = waiting.pop()
        if hasattr(tensor, "keras_call"):
            return True
        if isinstance(tensor, tf.Tensor) and tensor.op not in seen:
            seen.add(tensor.op)
            waiting += tensor.op.inputs
    return False


def _add_op_layer(value: Tensor) -> None:
    if hasattr(value, "keras_call"):
        return
    inputs, constants = [], {}
    for position, given in enumerate(value.op.inputs):
        if _is_of_model(given):
            inputs.append(given)
        else:
            constants[position] = _evaluate(given)
    for given in inputs:
        _add_op_layer(given)
    record_call(TensorFlowOpLayer(value.op, constants), (inputs,), {}, value.op.outputs)


def _evaluate(tensor: Tensor) -> Any:
    """The value of a tensor that needs no input of a model, with the nodes that Keras makes to compute it."""
    with tf.init_scope(), tf.control_dependencies([tensor]):
        tf.group()
    backend.initialize_variables()
    value = tf.get_static_value(tensor)
    return backend.get_session().run(tensor) if value is None else value
