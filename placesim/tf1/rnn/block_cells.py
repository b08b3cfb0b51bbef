"""`tf.contrib.rnn`: cells with one op per step, and an LSTM with one op per sequence."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import register
from placesim.tf1.gradients.rules.recurrent import gru_step, lstm_step
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.layers.layer import InputSpec, Layer
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.rnn.cells import LayerRNNCell, UnitSizes
from placesim.tf1.rnn.lstm import LSTMSizes, LSTMStateTuple

tf = namespace("")

# TensorFlow 1's contrib registered these gradients; TensorFlow 2 has none for the ops.
register("LSTMBlockCell", lstm_step)
register("GRUBlockCell", gru_step)


def _known_depth(shape: Any, axis: int) -> int:
    first = shape[0] if isinstance(shape, list) else shape
    size = first.as_list()[axis]
    if size is None:
        raise ValueError(f"Expecting inputs_shape[{axis}] to be set: {first}")
    return int(size)


def _attrs(forget_bias: float, cell_clip: float | None, use_peephole: bool) -> dict[str, Any]:
    return {"forget_bias": forget_bias, "cell_clip": -1 if cell_clip is None else cell_clip, "use_peephole": use_peephole}


class _Weights:
    """Variables of a fused LSTM, and the arguments of its op."""

    def __init__(self, layer: Layer, depth: int, units: int, uses_peepholes: bool) -> None:
        self.kernel = layer.add_weight("kernel", [depth + units, 4 * units])
        self.bias = layer.add_weight("bias", [4 * units], initializer=tf.constant_initializer(0.0))
        self.units = units
        names = ("w_i_diag", "w_f_diag", "w_o_diag") if uses_peepholes else ()
        self._diagonals = [layer.add_weight(name, [units]) for name in names]

    def peepholes(self, dtype: DTypeLike) -> list[Any]:
        """Peepholes of input, forget and output gate; zeros if unused."""
        return self._diagonals or [tf.zeros([self.units], dtype=dtype)] * 3


class LSTMBlockCell(LSTMSizes, LayerRNNCell):
    """An LSTM cell with one op per step."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: DTypeLike | None = None,
        reuse: object = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units, self._use_peephole = num_units, use_peephole
        self._attrs = _attrs(forget_bias, cell_clip, use_peephole)
        self.input_spec = InputSpec(ndim=2)

    def build(self, input_shape: ShapeLike) -> None:
        self._weights = _Weights(self, _known_depth(input_shape, 1), self._num_units, self._use_peephole)
        self.built = True

    def call(self, inputs: Any, state: Any = None, *args: object, **kwargs: object) -> Any:
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        weights = self._weights
        found = gen("LSTMBlockCell")(
            inputs, state[0], state[1], weights.kernel, *weights.peepholes(inputs.dtype), weights.bias, **self._attrs
        )
        return found.h, LSTMStateTuple(found.cs, found.h)


class GRUBlockCellV2(UnitSizes, LayerRNNCell):
    """A gated recurrent unit whose step is one op, with the variables of `GRUCell`."""

    _weight_names = (("gates/kernel", "gates/bias"), ("candidate/kernel", "candidate/bias"))

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: object = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, dtype=dtype, name=kwargs.get("name", "gru_cell"))
        if (num_units is None) == (cell_size is None):
            raise ValueError("Exactly one of num_units or cell_size must be provided.")
        self._num_units: Any = num_units if cell_size is None else cell_size
        self.input_spec = InputSpec(ndim=2)

    def build(self, input_shape: ShapeLike) -> None:
        units = self._num_units
        rows = _known_depth(input_shape, 1) + units

        def add(names: tuple[str, str], columns: int, bias: float) -> tuple[Any, Any]:
            kernel = self.add_weight(names[0], [rows, columns])
            return kernel, self.add_weight(names[1], [columns], initializer=tf.constant_initializer(bias))

        self._gates = add(self._weight_names[0], 2 * units, 1.0)
        self._candidate = add(self._weight_names[1], units, 0.0)
        self.built = True

    def call(self, inputs: TensorLike, state: object = None, *args: object, **kwargs: object) -> Any:
        (gates, gates_bias), (candidate, candidate_bias) = self._gates, self._candidate
        found = gen("GRUBlockCell")(inputs, state, gates, candidate, gates_bias, candidate_bias)
        return found.h, found.h


class GRUBlockCell(GRUBlockCellV2):
    """A `GRUBlockCellV2` whose variables have other names."""

    _weight_names = (("w_ru", "b_ru"), ("w_c", "b_c"))


class LSTMBlockFusedCell(Layer):
    """An LSTM that computes a whole sequence `[time, batch, depth]` in one op."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: object = None,
        dtype: DTypeLike | None = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.num_units, self._use_peephole = num_units, use_peephole
        self._attrs = _attrs(forget_bias, cell_clip, use_peephole)
        self.input_spec = InputSpec(ndim=3)

    def build(self, input_shape: ShapeLike) -> None:
        self._weights = _Weights(self, _known_depth(input_shape, 2), self.num_units, self._use_peephole)
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(inputs, *args, **kwargs)

    def _run(
        self, inputs: Any, initial_state: Any = None, dtype: DTypeLike | None = None, sequence_length: TensorLike | None = None
    ) -> Any:
        steps, batch = (
            tf.shape(inputs)[axis] if inputs.shape.as_list()[axis] is None else inputs.shape.as_list()[axis] for axis in (0, 1)
        )
        if initial_state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified")
            zeros = tf.zeros(tf.stack([batch, self.num_units]), dtype=dtype)
            initial_state = zeros, zeros
        c, h = initial_state
        longest = steps if sequence_length is None else tf.reduce_max(sequence_length)
        weights = self._weights
        found = gen("BlockLSTM")(
            *(tf.cast(longest, tf.int64), inputs, c, h, weights.kernel, *weights.peepholes(inputs.dtype), weights.bias),
            **self._attrs,
        )
        cells, outputs = found.cs, found.h
        if sequence_length is None:
            return outputs, LSTMStateTuple(cells[-1], outputs[-1])
        mask = tf.sequence_mask(sequence_length, maxlen=steps, dtype=inputs.dtype)
        outputs *= tf.expand_dims(tf.transpose(mask), -1)
        # The last step of each sequence; the initial state of an empty sequence.
        places = tf.stack([tf.cast(sequence_length, tf.int32), tf.range(batch)], axis=1)
        last = [tf.gather_nd(tf.concat([[start], made], 0), places) for start, made in ((c, cells), (h, outputs))]
        return outputs, LSTMStateTuple(*last)
