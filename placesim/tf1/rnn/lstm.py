"""LSTM cells: `BasicLSTMCell` and `LSTMCell`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from placesim.tf1.app.logging import warn
from placesim.tf1.graphs.tensor_likes import DTypeLike, InitializerLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.rnn.cells import UnitCell

tf = namespace("")


class LSTMStateTuple(namedtuple("LSTMStateTuple", ("c", "h"))):
    """An LSTM's state: cell and hidden."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The type of both parts.  Raises TypeError if their types differ."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent dtypes for internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class LSTMSizes:
    """Sizes of an LSTM cell with optional output projection."""

    _num_units: Any
    _num_proj: int | None = None
    _state_is_tuple: bool = True

    @property
    def output_size(self) -> Any:
        return self._num_proj or self._num_units

    @property
    def state_size(self) -> Any:
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)


class BasicLSTMCell(LSTMSizes, UnitCell):
    """An LSTM cell without options."""

    def __init__(
        self,
        num_units: Any,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple

    def build(self, input_shape: ShapeLike) -> None:
        depth, units = self._depth(input_shape), self._num_units
        self._kernel = self.add_weight("kernel", [depth + units, 4 * units])
        self._bias = self._add_bias("bias", 4 * units)
        self.built = True

    def call(self, inputs: TensorLike, state: Any = None, *args: object, **kwargs: object) -> Any:
        one = tf.constant(1, dtype=tf.int32)
        c, h = state if self._state_is_tuple else tf.split(value=state, num_or_size_splits=2, axis=one)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=one)
        # A forget gate that is open before training lets the state of early steps reach late ones.
        bias = tf.constant(self._forget_bias, dtype=f.dtype)
        kept = tf.multiply(c, tf.sigmoid(tf.add(f, bias)))
        new_c = tf.add(kept, tf.multiply(tf.sigmoid(i), self._activation(j)))
        new_h = tf.multiply(self._activation(new_c), tf.sigmoid(o))
        new = LSTMStateTuple(new_c, new_h) if self._state_is_tuple else tf.concat([new_c, new_h], 1)
        return new_h, new


class LSTMCell(LSTMSizes, UnitCell):
    """An LSTM cell with optional peepholes, clipping and projection."""

    def __init__(
        self,
        num_units: Any,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: InitializerLike | None = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        if not state_is_tuple:
            warn("%s: Using a concatenated state is slower and will soon be deprecated.  Use state_is_tuple=True.", self)
        self._use_peepholes = use_peepholes
        self._cell_clip, self._proj_clip = cell_clip, proj_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple

    def build(self, input_shape: ShapeLike) -> None:
        depth, units = self._depth(input_shape), self._num_units
        self._kernel = self._add_sharded("kernel", [depth + self.output_size, 4 * units], self._num_unit_shards)
        self._bias = self._add_bias("bias", 4 * units)
        if self._use_peepholes:
            peepholes = (self.add_weight(f"w_{gate}_diag", [units], initializer=self._initializer) for gate in "fio")
            self._of_forget, self._of_input, self._of_output = peepholes
        if self._num_proj is not None:
            self._projection = self._add_sharded("projection/kernel", [units, self._num_proj], self._num_proj_shards)
        self.built = True

    def _add_sharded(self, name: str, shape: list[int], shards: int | None) -> Any:
        partitioner = None if shards is None else tf.fixed_size_partitioner(shards)
        return self.add_weight(name, shape, initializer=self._initializer, partitioner=partitioner)

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        c, h = state if self._state_is_tuple else self._sliced(state)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
        f = f + self._forget_bias
        if self._use_peepholes:
            f = f + self._of_forget * c
        kept = tf.sigmoid(f) * c
        if self._use_peepholes:
            i = i + self._of_input * c
        c = clipped(kept + tf.sigmoid(i) * self._activation(j), self._cell_clip)
        if self._use_peepholes:
            o = o + self._of_output * c
        h = tf.sigmoid(o) * self._activation(c)
        if self._num_proj is not None:
            h = clipped(tf.matmul(h, self._projection), self._proj_clip)
        return h, LSTMStateTuple(c, h) if self._state_is_tuple else tf.concat([c, h], 1)

    def _sliced(self, state: object) -> tuple[Any, Any]:
        units = self._num_units
        return tf.slice(state, [0, 0], [-1, units]), tf.slice(state, [0, units], [-1, self.output_size])


def clipped(value: TensorLike, limit: float | None) -> Any:
    """A value clipped to ±limit, if there is a limit."""
    return value if limit is None else tf.clip_by_value(value, -limit, limit)
