"""`tf.keras.Model` and `Sequential`: layers of other layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.keras.keras_layer import InputLayer, Layer, LayerCall, add_op_layers, is_in_call
from placesim.tf1.layers.layer import InputSpec
from placesim.tf1.layers.layer import Layer as AnyLayer
from placesim.tf1.types import nest


def Input(  # noqa: N802
    shape: ShapeLike | None = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: DTypeLike | None = None,
    batch_shape: ShapeLike | None = None,
    **_: object,
) -> Any:
    """A placeholder for a model's inputs.  Raises ValueError without a shape."""
    if shape is None and batch_shape is None:
        raise ValueError(
            "Please provide to Input a `shape` or a `tensor` or a `type_spec` argument. Note that `shape` does not include the "
            "batch dimension."
        )
    return InputLayer(shape, batch_size, dtype, name, batch_shape).output


class Network:
    """The calls of layers between a model's inputs and outputs, in the order in which the model repeats them."""

    def __init__(self, inputs: Any, outputs: Any, model: str) -> None:
        """Raises ValueError for inputs other than `Input`s, and for outputs that no layer made.

        `model` is the model's class.
        """
        self.inputs, self.outputs = inputs, outputs
        flat = nest.flatten(inputs)
        for value in flat:
            if not isinstance(getattr(getattr(value, "keras_call", None), "layer", None), InputLayer):
                raise ValueError(
                    "Input tensors to a Functional model must come from `tf.keras.Input`. "
                    f"Received inputs={value} (missing previous layer metadata)."
                )
        add_op_layers(outputs)
        indices, calls = _trace(nest.flatten(outputs), model)
        depths, layer_depths = _depths(calls)
        for value in flat:  # inputs that no output needs
            layer_depths.setdefault(value.keras_call.layer, 0)
            indices.setdefault(value.keras_call.layer, -1)
        self.layers = sorted(layer_depths, key=lambda layer: (-layer_depths[layer], indices[layer]))
        self.calls = sorted(depths, key=lambda call: -depths[call])
        self._check()

    def _check(self) -> None:
        """Raise ValueError for a call that needs another input than the model's."""
        known = {id(value) for value in nest.flatten(self.inputs)}
        before: list[str] = []
        for call in self.calls:
            if isinstance(call.layer, InputLayer):
                continue
            for value in call.inputs:
                if id(value) not in known:
                    raise ValueError(
                        f'Graph disconnected: cannot obtain value for tensor {value} at layer "{call.layer.name}". '
                        f"The following previous layers were accessed without issue: {before}"
                    )
            known |= {id(value) for value in nest.flatten(call.outputs)}
            before.append(call.layer.name)

    def repeat(self, inputs: Any, model: str) -> Any:
        """The outputs for other inputs.  Raises ValueError for another number of inputs."""
        own, given = nest.flatten(self.inputs), nest.flatten(inputs)
        if len(own) != len(given):
            raise ValueError(
                f'Layer "{model}" expects {len(own)} input(s), but it received {len(given)} input tensors. '
                f"Inputs received: {given}"
            )
        made = {id(of): tf.cast(value, of.dtype) for of, value in zip(own, given, strict=True)}

        def now(value: Any) -> Any:
            return made.get(id(value), value)

        for call in self.calls:
            if not isinstance(call.layer, InputLayer):
                args, kwargs = nest.map_structure(now, (call.args, call.kwargs))
                outputs = nest.flatten(call.layer(*args, **kwargs))
                made |= {id(of): value for of, value in zip(nest.flatten(call.outputs), outputs, strict=True)}
        return nest.map_structure(now, self.outputs)


def _trace(outputs: Sequence[Any], model: str) -> tuple[dict[Any, int], list[LayerCall]]:
    """Layers numbered as they are found from the outputs on, and their calls, each after those that it needs."""
    indices: dict[Any, int] = {}
    calls: dict[LayerCall, None] = {}

    def visit(value: Any) -> None:
        call = getattr(value, "keras_call", None)
        if call is None:
            raise ValueError(
                f"Output tensors of a {model} model must bethe output of a TensorFlow `Layer` "  # TensorFlow lacks a blank
                f"(thus holding past layer metadata). Found: {value}"
            )
        if call not in calls:
            indices.setdefault(call.layer, len(indices))
            for needed in call.inputs:
                visit(needed)
            calls[call] = None

    for output in outputs:
        visit(output)
    return indices, list(calls)


def _depths(calls: Sequence[LayerCall]) -> tuple[dict[LayerCall, int], dict[Any, int]]:
    """Largest distance of each call and of each layer from the outputs, in the order in which they were reached."""
    depths: dict[LayerCall, int] = {}
    layer_depths: dict[Any, int] = {}
    for call in reversed(calls):
        depths[call] = layer_depths[call.layer] = max(depths.get(call, 0), layer_depths.get(call.layer, 0))
        for value in call.inputs:
            depths[value.keras_call] = max(depths[call] + 1, depths.get(value.keras_call, 0))
    return depths, layer_depths


class Model(Layer):
    """A layer made of other layers: the layers between `inputs` and `outputs`, or those of a subclass with `call`."""

    _network: Network | None = None

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if inputs is not None:
            self._set_network(inputs, outputs)

    def _set_network(self, inputs: Any, outputs: Any) -> None:
        self._network = Network(inputs, outputs, type(self).__name__)
        if not nest.is_nested(inputs):
            self.batch_input_shape = tuple(inputs.shape.as_list())
            self.input_spec = InputSpec(shape=(None, *self.batch_input_shape[1:]))
        self.built = True

    @property
    def _nested(self) -> list[AnyLayer]:
        return super()._nested if self._network is None else list(self._network.layers)

    @property
    def layers(self) -> list[AnyLayer]:
        return self._nested

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """The layer of this name or index.  Raises ValueError if there is none, and for both or neither of them."""
        if index is not None and name is not None:
            raise ValueError(f"Provide only a layer name or a layer index. Received: index={index}, name={name}.")
        if index is not None:
            if len(self.layers) <= index:
                raise ValueError(f"Was asked to retrieve layer at index {index} but model only has {len(self.layers)} layers.")
            return self.layers[index]
        if name is None:
            raise ValueError("Provide either a layer name or layer index at `get_layer`.")
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}. Existing layers are: {[layer.name for layer in self.layers]}.")

    @property
    def input(self) -> Any:
        if self._network is None:
            raise AttributeError(f"Layer {self.name} is not connected, no input to return.")
        return self._network.inputs

    @property
    def output(self) -> Any:
        if self._network is None:
            raise AttributeError(f"Layer {self.name} has no inbound nodes.")
        return self._network.outputs

    @property
    def inputs(self) -> list[Any]:
        return nest.flatten(self.input)

    @property
    def outputs(self) -> list[Any]:
        return nest.flatten(self.output)

    @property
    def input_shape(self) -> Any:
        return nest.map_structure(lambda value: tuple(value.shape.as_list()), self.input)

    @property
    def output_shape(self) -> Any:
        return nest.map_structure(lambda value: tuple(value.shape.as_list()), self.output)

    def call(self, inputs: TensorLike, *args: object, **kwargs: object) -> Any:
        if self._network is None:
            return super().call(inputs, *args, **kwargs)
        return self._network.repeat(inputs, self.name)

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables by a call on a placeholder; otherwise, the first call makes them."""
        if not is_in_call():
            self.call(tf.placeholder(tf.float32, input_shape))
        self.built = True

    def _with_nested(self, own: list[Any], name: str) -> list[Any]:
        """As in a layer, but the model's own items are last."""
        return [item for nested in self._nested for item in getattr(nested, name)] + own

    @property
    def variables(self) -> list[Any]:
        """All variables, layer by layer."""
        return self._with_nested(self._variables, "variables")

    weights = variables


class Sequential(Model):
    """Layers applied one after another.  Raises NotImplementedError for building before the first call."""

    def __init__(self, layers: Sequence[Any] | None = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._stack: list[Any] = []
        for one in layers or ():
            self.add(one)

    @property
    def layers(self) -> list[AnyLayer]:
        return [one for one in self._stack if not isinstance(one, InputLayer)]

    @property
    def weights(self) -> list[Any]:
        if not self.built:
            raise ValueError(
                f"Weights for model '{self.name}' have not yet been created. Weights are created when the model is first "
                "called on inputs or `build()` is called with an `input_shape`."
            )
        return self.variables

    def add(self, layer: Any) -> None:
        """Append a layer; the first one may tell the shape of the inputs.

        Raises TypeError for other than a layer, and ValueError for the name of another layer.
        """
        layer = getattr(getattr(layer, "keras_call", None), "layer", layer)
        if not isinstance(layer, AnyLayer):
            raise TypeError(
                f"The added layer must be an instance of class Layer. Received: layer={layer} of type {type(layer)}."
            )
        if any(layer.name == other.name and layer is not other for other in self.layers):
            raise ValueError(
                f'All layers added to a Sequential model should have unique names. Name "{layer.name}" is already the name of '
                "a layer in this model. Update the `name` argument to pass a unique name."
            )
        shape = getattr(layer, "batch_input_shape", None)
        if isinstance(layer, InputLayer):
            self._set_network(layer.output, layer.output)
        elif self._network is None and not self._stack and shape is not None:
            inputs = InputLayer(batch_input_shape=shape, dtype=layer.dtype, name=f"{layer.name}_input").output
            self._set_network(inputs, layer(inputs))
        elif self._network is not None:
            self._set_network(self.input, layer(self.output))
        self._stack.append(layer)

    def call(self, inputs: TensorLike, *args: object, **kwargs: object) -> Any:
        if self._network is not None:
            return super().call(inputs)
        for one in self._stack:
            inputs = one(inputs)
        return inputs
