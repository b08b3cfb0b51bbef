"""`tf.keras.layers.Bidirectional` and `TimeDistributed`: layers around another layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import ShapeLike
from placesim.tf1.keras import backend
from placesim.tf1.keras.keras_layer import Layer
from placesim.tf1.keras.recurrent import with_states
from placesim.tf1.keras.steps import rnn
from placesim.tf1.layers.layer import Layer as AnyLayer
from placesim.tf1.types.shapes import TensorShape

_MERGED: dict[str | None, Callable[[Any, Any], Any]] = {
    "sum": lambda forward, backward: forward + backward,
    "mul": lambda forward, backward: forward * backward,
    "ave": lambda forward, backward: (forward + backward) / 2,
    "concat": lambda forward, backward: backend.concatenate([forward, backward]),
    None: lambda forward, backward: [forward, backward],
}


class Bidirectional(Layer):
    """Applies two copies of a recurrent layer, one of them from the end to the beginning."""

    def __init__(self, layer: Any, merge_mode: str | None = "concat", backward_layer: Any = None, **kwargs: Any) -> None:
        _check_layer("Bidirectional", layer)
        if merge_mode not in _MERGED:
            raise ValueError(
                f"Invalid merge mode. Received: {merge_mode}. Merge mode should be one of "
                '{"sum", "mul", "ave", "concat", None}'
            )
        super().__init__(**kwargs)
        inner: Any = layer
        self.forward_layer = inner.clone()
        self.backward_layer = backward_layer or inner.clone(go_backwards=not inner.go_backwards)
        for one, way in ((self.forward_layer, "forward_"), (self.backward_layer, "backward_")):
            one._name = way + one.name
            one.zero_output_for_mask = one.return_sequences
        self.merge_mode, self.supports_masking = merge_mode, True
        self.return_sequences, self.return_state = inner.return_sequences, inner.return_state
        self.input_spec = layer.input_spec

    def build(self, input_shape: ShapeLike) -> None:
        for one in (self.forward_layer, self.backward_layer):
            with tf.name_scope(one.name):
                one.build(input_shape)
        self.built = True

    def __call__(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> Any:
        """Apply the layers; their initial states may also follow the inputs in a list."""
        inputs, states = with_states(inputs, initial_state)
        return super().__call__(inputs, **states, **kwargs)

    def call(  # type: ignore[override]
        self, inputs: Any, training: object = None, mask: Any = None, initial_state: Any = None
    ) -> Any:
        half = len(initial_state or ()) // 2
        given = (None, None) if initial_state is None else (initial_state[:half], initial_state[half:])
        kwargs: dict[str, Any] = {"training": training, "mask": mask}
        forward, backward = (
            one(inputs, initial_state=state, **kwargs)
            for one, state in zip((self.forward_layer, self.backward_layer), given, strict=True)
        )
        states: list[Any] = []
        if self.return_state:
            (forward, *first), (backward, *second) = forward, backward
            states = first + second
        if self.return_sequences:
            backward = tf.reverse(backward, [0 if self.forward_layer.time_major else 1])
        output = _MERGED[self.merge_mode](forward, backward)
        if not self.return_state:
            return output
        return [*(output if self.merge_mode is None else [output]), *states]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the outputs: the mask of the inputs if the layer returns sequences, else None."""
        kept = [mask if self.return_sequences else None] * (2 if self.merge_mode is None else 1)
        if self.return_state:
            return [*kept, *(None for _ in self.forward_layer.states * 2)]
        return kept if self.merge_mode is None else kept[0]


class TimeDistributed(Layer):
    """Applies a layer to each step of `inputs [batch, time, ...]`."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        _check_layer("TimeDistributed", layer)
        super().__init__(**kwargs)
        self.layer, self.supports_masking = layer, True
        # a user's layer may tell the steps of a batch of known size apart
        self._joins_steps = type(layer).__module__.startswith("placesim.") and not getattr(layer, "stateful", False)

    def build(self, input_shape: ShapeLike) -> None:
        shape = TensorShape(input_shape)
        sizes = shape.as_list()
        if len(sizes) < 3:
            raise ValueError(
                f"`TimeDistributed` Layer should be passed an `input_shape ` with at least 3 dimensions, received: {shape}"
            )
        if not self.layer.built:
            self.layer.build(TensorShape([sizes[0], *sizes[2:]]))
            self.layer.built = True
        self.built = True

    def call(self, inputs: Any, training: object = None, mask: Any = None) -> Any:  # type: ignore[override]
        kwargs = {"training": training} if "training" in inspect.signature(self.layer.call).parameters else {}
        batch, steps, *_ = inputs.shape.as_list()
        if batch and not self._joins_steps:
            _, outputs, _ = rnn(lambda values, _: (self.layer(values, **kwargs), []), inputs, [], mask=mask)
            return outputs
        steps = steps or tf.shape(inputs)[1]
        joined = _joined(inputs)
        if mask is not None and "mask" in inspect.signature(self.layer.call).parameters:
            kwargs["mask"] = _joined(mask)
        outputs = self.layer(joined, **kwargs)
        return tf.reshape(outputs, (batch or -1, steps, *_sizes_from(outputs, 1)))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the inner layer's outputs, else the mask of the inputs."""
        batch, steps, *_ = inputs.shape.as_list()
        if batch and not self._joins_steps:
            return mask
        inner = None if mask is None else _joined(mask)
        found = self.layer.compute_mask(_joined(inputs), inner)
        if found is None:
            while mask is not None and mask.shape.rank > 2:
                mask = tf.reduce_any(mask, axis=-1)
            return mask
        return tf.reshape(found, (batch or -1, steps or tf.shape(inputs)[1], *_sizes_from(found, 1)))


def _check_layer(wrapper: str, layer: object) -> None:
    if not isinstance(layer, AnyLayer):
        raise ValueError(f"Please initialize `{wrapper}` layer with a `tf.keras.layers.Layer` instance. Received: {layer}")


def _joined(value: Any) -> Any:
    """A tensor with its first two dimensions joined."""
    return tf.reshape(value, (-1, *_sizes_from(value, 2)))


def _sizes_from(value: Any, first: int) -> list[Any]:
    """Sizes of the dimensions from `first` on; tensors for all unknown ones."""
    sizes = value.shape.as_list()[first:]
    if None not in sizes:
        return list(sizes)
    shape = tf.shape(value)
    return [shape[first + i] if size is None else size for i, size in enumerate(sizes)]
