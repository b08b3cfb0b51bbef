"""`tf.contrib.rnn`: cells that TensorFlow 2 has removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, InitializerLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.rnn.cells import RNNCell, UnitSizes
from placesim.tf1.rnn.lstm import LSTMSizes, LSTMStateTuple, clipped

tf = namespace("")


def linear(
    inputs: TensorLike, size: int, has_bias: bool, bias_start: float | None = None, kernel: InitializerLike | None = None
) -> Any:
    """Concatenated inputs times a variable `kernel`, plus a variable `bias`, both made in the current scope."""
    parts = as_list(inputs)
    widths = [part.shape.as_list()[1] for part in parts]
    if None in widths:
        raise ValueError(f"linear expects shape[1] to be provided for shape {parts[widths.index(None)].shape}")
    weights = tf.get_variable("kernel", [sum(widths), size], parts[0].dtype, initializer=kernel)
    product = tf.matmul(parts[0] if len(parts) == 1 else tf.concat(parts, 1), weights)
    if not has_bias:
        return product
    start = tf.constant_initializer(bias_start or 0.0, dtype=parts[0].dtype)
    return tf.nn.bias_add(product, tf.get_variable("bias", [size], parts[0].dtype, initializer=start))


class _LSTM(LSTMSizes, RNNCell):
    """Base of cells with the state of an LSTM."""

    def __init__(self, num_units: int, reuse: object = None, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units = num_units


class _Normalized(_LSTM):
    """LSTM cell with optional layer normalisation of its gates and its state."""

    def __init__(self, num_units: int, reuse: Any, layer_norm: bool, norm_gain: float, norm_shift: float) -> None:
        super().__init__(num_units, reuse)
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift

    def _normalized(self, x: Tensor, scope: str) -> Any:
        if not self._layer_norm:
            return x
        with tf.variable_scope(scope):
            sizes = x.shape[-1:]
            gain = tf.constant_initializer(self._norm_gain)
            shift = tf.constant_initializer(self._norm_shift)
            gamma = tf.get_variable("gamma", sizes, x.dtype, initializer=gain)
            beta = tf.get_variable("beta", sizes, x.dtype, initializer=shift)
        with tf.name_scope(scope):
            mean, variance = tf.nn.moments(x, [1], keep_dims=True)
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


class LayerNormBasicLSTMCell(_Normalized):
    """An LSTM cell with layer normalisation and recurrent dropout."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Callable[[Any], Any] | None = None,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: object = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: object = None,
    ) -> None:
        super().__init__(num_units, reuse, layer_norm, norm_gain, norm_shift)
        if input_size is not None:
            tf.logging.warn("%s: The input_size parameter is deprecated.", self)
        self._activation = tf.tanh if activation is None else activation
        self._forget_bias = forget_bias
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    def call(self, inputs: Any, state: Any = None, *args: object, **kwargs: object) -> Any:
        c, h = state
        gates = linear([inputs, h], 4 * self._num_units, not self._layer_norm)
        parts = tf.split(value=gates, num_or_size_splits=4, axis=1)
        scopes = ("input", "transform", "forget", "output")
        i, j, f, o = (self._normalized(part, scope) for part, scope in zip(parts, scopes, strict=True))
        candidate = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            candidate = tf.nn.dropout(candidate, self._keep_prob, seed=self._seed)
        c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * candidate
        c = self._normalized(c, "state")
        h = self._activation(c) * tf.sigmoid(o)
        return h, LSTMStateTuple(c, h)


class CoupledInputForgetGateLSTMCell(_Normalized):
    """An LSTM cell with coupled input and forget gates."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: InitializerLike | None = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        super().__init__(num_units, reuse, layer_norm, norm_gain, norm_shift)
        if num_unit_shards != 1 or num_proj_shards != 1:
            raise not_there("contrib.rnn.CoupledInputForgetGateLSTMCell with several shards", "with one shard it is there")
        self._use_peepholes, self._initializer = use_peepholes, initializer
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple
        self._activation = tf.tanh if activation is None else activation

    def _peephole(self, gate: str, c: Tensor) -> Any:
        return tf.get_variable(f"W_{gate}_diag", [self._num_units], c.dtype, initializer=self._initializer) * c

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        units = self._num_units
        width = self.output_size
        c, h = (
            state if self._state_is_tuple else (tf.slice(state, [0, 0], [-1, units]), tf.slice(state, [0, units], [-1, width]))
        )
        sizes = [inputs.shape.as_list()[1] + width, 3 * units]
        weights = tf.get_variable("W_0", sizes, inputs.dtype, initializer=self._initializer)
        biases = tf.get_variable("B", [3 * units], inputs.dtype, initializer=tf.zeros_initializer())
        gates = tf.matmul(tf.concat([inputs, h], 1), weights)
        parts = tf.split(gates if self._layer_norm else tf.nn.bias_add(gates, biases), 3, axis=1)
        scopes = ("transform", "forget", "output")
        j, f, o = (self._normalized(part, scope) for part, scope in zip(parts, scopes, strict=True))
        kept = f + self._forget_bias
        kept = tf.sigmoid(kept + self._peephole("F", c) if self._use_peepholes else kept)
        c = self._normalized(kept * c + (1 - kept) * self._activation(j), "state")
        h = tf.sigmoid(o + self._peephole("O", c) if self._use_peepholes else o) * self._activation(c)
        if self._num_proj is not None:
            projection = tf.get_variable("W_P_0", [units, self._num_proj], h.dtype, initializer=self._initializer)
            h = clipped(tf.matmul(h, projection), self._proj_clip)
        return h, LSTMStateTuple(c, h) if self._state_is_tuple else tf.concat([c, h], 1)


class UGRNNCell(UnitSizes, RNNCell):
    """An update gate recurrent cell: new = gate * old + (1 - gate) * candidate."""

    def __init__(
        self,
        num_units: int,
        initializer: InitializerLike | None = None,
        forget_bias: float = 1.0,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer, self._forget_bias = num_units, initializer, forget_bias
        self._activation = tf.tanh if activation is None else activation

    def call(self, inputs: Any, state: Any = None, *args: object, **kwargs: object) -> Any:
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gate, candidate = tf.split(linear([inputs, state], 2 * self._num_units, True), 2, axis=1)
            candidate = self._activation(candidate)
            kept = tf.sigmoid(gate + self._forget_bias)
            new = kept * state + (1 - kept) * candidate
        return new, new


class NASCell(_LSTM):
    """The recurrent cell found by neural architecture search."""

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_bias: bool = False, reuse: object = None, **_: Any
    ) -> None:
        super().__init__(num_units, reuse)
        self._num_proj, self._use_bias = num_proj, use_bias

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        c, h = state
        units = self._num_units
        weights = tf.get_variable("recurrent_kernel", [self.output_size, 8 * units], h.dtype)
        kernel = tf.get_variable("kernel", [inputs.shape.as_list()[1], 8 * units], inputs.dtype)
        of_state, of_inputs = tf.matmul(h, weights), tf.matmul(inputs, kernel)
        if self._use_bias:
            of_state = tf.nn.bias_add(of_state, tf.get_variable("bias", [8 * units], h.dtype, tf.zeros_initializer()))
        m, n = tf.split(of_state, 8, axis=1), tf.split(of_inputs, 8, axis=1)
        first = [
            tf.sigmoid(n[0] + m[0]),
            tf.nn.relu(n[1] + m[1]),
            tf.sigmoid(n[2] + m[2]),
            tf.nn.relu(n[3] * m[3]),
            tf.tanh(n[4] + m[4]),
            tf.sigmoid(n[5] + m[5]),
            tf.tanh(n[6] + m[6]),
            tf.sigmoid(n[7] + m[7]),
        ]
        second = [
            tf.tanh(first[0] * first[1]),
            tf.tanh(first[2] + first[3]),
            tf.tanh(first[4] * first[5]),
            tf.sigmoid(first[6] + first[7]),
        ]
        second[0] = tf.tanh(second[0] + c)
        c = second[0] * second[1]
        h = tf.tanh(c * tf.tanh(second[2] + second[3]))
        if self._num_proj is not None:
            h = tf.matmul(h, tf.get_variable("projection_weights", [units, self._num_proj], h.dtype))
        return h, LSTMStateTuple(c, h)


class ConvLSTMCell(RNNCell):
    """An LSTM with convolutions over one, two or three dimensions."""

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: object = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._ndims, self._space = conv_ndims, list(input_shape[:-1])
        self._channels, self._kernel_shape, self._use_bias = output_channels, list(kernel_shape), use_bias
        self._skips, self._forget_bias = skip_connection, forget_bias
        self._all_channels = output_channels + (input_shape[-1] if skip_connection else 0)

    @property
    def output_size(self) -> Any:
        return tf.TensorShape([*self._space, self._all_channels])

    @property
    def state_size(self) -> Any:
        size = tf.TensorShape([*self._space, self._channels])
        return LSTMStateTuple(size, size)

    def call(self, inputs: Any, state: Any = None, *args: object, **kwargs: object) -> Any:
        c, h = state
        gates = self._convolved(tf.concat([inputs, h], axis=self._ndims + 1), 4 * self._channels)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=self._ndims + 1)
        c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        output = tf.tanh(c) * tf.sigmoid(o)
        if self._skips:
            output = tf.concat([output, inputs], axis=-1)
        return output, LSTMStateTuple(c, output)

    def _convolved(self, x: Tensor, channels: int) -> Any:
        convolve: Callable[..., Any] = (tf.nn.conv1d, tf.nn.conv2d, tf.nn.conv3d)[self._ndims - 1]
        kernel = tf.get_variable("kernel", [*self._kernel_shape, x.shape.as_list()[-1], channels], x.dtype)
        strides: Any = 1 if self._ndims == 1 else [1] * (self._ndims + 2)
        found = convolve(x, kernel, strides, padding="SAME")
        if not self._use_bias:
            return found
        return found + tf.get_variable("biases", [channels], x.dtype, initializer=tf.constant_initializer(0.0))


def _conv_lstm(ndims: int) -> type[ConvLSTMCell]:
    class Cell(ConvLSTMCell):
        def __init__(self, name: str = f"conv_{ndims}d_lstm_cell", **kwargs: Any) -> None:
            super().__init__(conv_ndims=ndims, name=name, **kwargs)

    Cell.__name__ = Cell.__qualname__ = f"Conv{ndims}DLSTMCell"
    return Cell


Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_conv_lstm(ndims) for ndims in (1, 2, 3))
