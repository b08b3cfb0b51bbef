"""Cells of recurrent networks, and `static_rnn`, which applies one once for each input."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.layers.layer import InputSpec, Layer
from placesim.tf1.shapes import TensorShape
from placesim.tf1.tensor import Tensor


class LSTMStateTuple(namedtuple("LSTMStateTuple", ("c", "h"))):
    """An LSTM's state: cell and hidden."""

    __slots__ = ()


class RNNCell(Layer):
    """Base of the cells, and of users' own: `call(inputs, state)` gives output and new state."""

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        if scope is not None:
            with tf.variable_scope(scope, custom_getter=None) as scope:
                return super().__call__(inputs, state, *args, scope=scope, **kwargs)
        return super().__call__(inputs, state, *args, **kwargs)

    @property
    def state_size(self) -> Any:
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        raise NotImplementedError("Abstract method")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """A zero state for inputs, or for a batch size and type."""
        if inputs is not None:
            inputs = tf.convert_to_tensor(inputs, name="inputs")
            known = inputs.shape.as_list()[0]
            batch_size = known if known is not None else tf.shape(inputs)[0]
            dtype = inputs.dtype
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros of the state's sizes for each of a batch."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return _zeros(self.state_size, batch_size, dtype)


def _zeros(size: Any, batch: Any, dtype: Any) -> Any:
    if isinstance(size, (list, tuple)):
        made = [_zeros(item, batch, dtype) for item in size]
        return type(size)(*made) if hasattr(size, "_fields") else type(size)(made)
    sizes = [size] if isinstance(size, int) else TensorShape(size).as_list()
    shape = tf.concat(_shape_parts(batch, sizes), 0)
    value = tf.zeros(shape, dtype=dtype)
    _shape_parts(batch, sizes)  # TensorFlow makes the constants once more for the static shape
    value.set_shape([None if isinstance(batch, Tensor) else batch, *sizes])
    return value


def _shape_parts(batch: Any, sizes: Any) -> list[Any]:
    """A batch size and other sizes as vectors."""
    first = tf.expand_dims(batch, 0) if isinstance(batch, Tensor) else tf.constant([batch], dtype=tf.int32)
    return [first, tf.constant(sizes, dtype=tf.int32)]


class _UnitCell(RNNCell):
    """A cell of `num_units` units with an activation."""

    activation = "tanh"

    def __init__(self, num_units: int, activation: Any, reuse: Any, name: str | None, dtype: Any, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype, _reuse=reuse, _scope=name, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = getattr(tf, self.activation) if activation is None else activation

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> Any:
        return self._num_units

    def _depth(self, input_shape: Any) -> int:
        """The size of the inputs.  Raises ValueError where it is not known."""
        shape = TensorShape(input_shape if not isinstance(input_shape, list) else input_shape[0])
        if shape.dims is None or shape.dims[-1].value is None:
            known = None if shape.dims is None else tuple(shape.as_list())
            raise ValueError(f"Expected inputs.shape[-1] to be known, received shape: {known}")
        return int(shape.dims[-1].value)


class BasicRNNCell(_UnitCell):
    """`activation([inputs, state] . kernel + bias)`."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)

    def build(self, input_shape: Any) -> None:
        depth = self._depth(input_shape)
        self._kernel = self.add_weight("kernel", [depth + self._num_units, self._num_units])
        self._bias = self.add_weight("bias", [self._num_units], initializer=tf.zeros_initializer(dtype=self._given_dtype))
        self.built = True

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._kernel), self._bias)
        output = self._activation(gates)
        return output, output


class GRUCell(_UnitCell):
    """A gated recurrent unit."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._initializers = kernel_initializer, bias_initializer

    def build(self, input_shape: Any) -> None:
        depth, units = self._depth(input_shape), self._num_units
        kernel, bias = self._initializers
        ones = tf.constant_initializer(1.0, dtype=self._given_dtype) if bias is None else bias
        zeros = tf.zeros_initializer(dtype=self._given_dtype) if bias is None else bias
        self._gate_kernel = self.add_weight("gates/kernel", [depth + units, 2 * units], initializer=kernel)
        self._gate_bias = self.add_weight("gates/bias", [2 * units], initializer=ones)
        self._candidate_kernel = self.add_weight("candidate/kernel", [depth + units, units], initializer=kernel)
        self._candidate_bias = self.add_weight("candidate/bias", [units], initializer=zeros)
        self.built = True

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        gates = tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel)
        reset, update = tf.split(value=tf.sigmoid(tf.nn.bias_add(gates, self._gate_bias)), num_or_size_splits=2, axis=1)
        candidate = tf.matmul(tf.concat([inputs, reset * state], 1), self._candidate_kernel)
        candidate = self._activation(tf.nn.bias_add(candidate, self._candidate_bias))
        new = update * state + (1 - update) * candidate
        return new, new


class BasicLSTMCell(_UnitCell):
    """A long short-term memory."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple

    @property
    def state_size(self) -> Any:
        units = self._num_units
        return LSTMStateTuple(units, units) if self._state_is_tuple else 2 * units

    def build(self, input_shape: Any) -> None:
        depth, units = self._depth(input_shape), self._num_units
        self._kernel = self.add_weight("kernel", [depth + units, 4 * units])
        self._bias = self.add_weight("bias", [4 * units], initializer=tf.zeros_initializer(dtype=self._given_dtype))
        self.built = True

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        one = tf.constant(1, dtype=tf.int32)
        c, h = state if self._state_is_tuple else tf.split(value=state, num_or_size_splits=2, axis=one)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=one)
        bias = tf.constant(self._forget_bias, dtype=f.dtype)
        kept = tf.multiply(c, tf.sigmoid(tf.add(f, bias)))
        new_c = tf.add(kept, tf.multiply(tf.sigmoid(i), self._activation(j)))
        new_h = tf.multiply(self._activation(new_c), tf.sigmoid(o))
        new = LSTMStateTuple(new_c, new_h) if self._state_is_tuple else tf.concat([new_c, new_h], 1)
        return new_h, new


class MultiRNNCell(RNNCell):
    """Cells one after another."""

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, (list, tuple)):
            raise TypeError(f"cells must be a list or tuple, but received: {cells}.")
        self._cells, self._state_is_tuple = list(cells), state_is_tuple
        if not state_is_tuple:
            raise NotImplementedError("tf.nn.rnn_cell.MultiRNNCell with state_is_tuple=False. The default is there.")

    @property
    def state_size(self) -> Any:
        return tuple(cell.state_size for cell in self._cells)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    @property
    def trainable_variables(self) -> list[Any]:
        return [variable for cell in self._cells if isinstance(cell, Layer) for variable in cell.trainable_variables]

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [variable for cell in self._cells if isinstance(cell, Layer) for variable in cell.non_trainable_variables]

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        states = []
        for i, (cell, one) in enumerate(zip(self._cells, state, strict=True)):
            with tf.variable_scope(f"cell_{i}"):
                inputs, new = cell(inputs, one)
                states.append(new)
        return inputs, tuple(states)


class DeviceWrapper(RNNCell):
    """A cell on a device."""

    def __init__(self, cell: Any, device: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cell, self._device = cell, device

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]), tf.device(self._device):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        with tf.device(self._device):
            return self._cell(inputs, state, scope)


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A cell applied to each of a list of inputs: the outputs, and the last state."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")
    if sequence_length is not None:
        raise NotImplementedError(
            "tf.nn.static_rnn with sequence_length. Without it it is there; `convert` takes the GraphDef."
        )
    outputs = []
    with tf.variable_scope(scope or "rnn") as varscope:
        if varscope.caching_device is None:
            varscope.set_caching_device(lambda op: op.device)
        known = inputs[0].get_shape().as_list()[0] if inputs[0].get_shape().ndims is not None else None
        batch = known if known is not None else tf.shape(inputs[0])[0]
        state = initial_state
        if state is None:
            if dtype is None:
                raise ValueError("If no initial_state is provided, argument `dtype` must be specified")
            state = cell.zero_state(batch, dtype)
        for time, value in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()
            output, state = cell(value, state)
            outputs.append(output)
    return outputs, state
