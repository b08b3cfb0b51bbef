"""`tf.contrib.rnn`: cell wrappers that TensorFlow 2 has removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, InitializerLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.rnn.cells import CellLike, RNNCell, check_cell
from placesim.tf1.rnn.contrib_cells import linear
from placesim.tf1.types import nest
from placesim.tf1.types.read_only import read_only

tf = namespace("")


class _ScopedWrapper(RNNCell):
    """Cell wrapper with its own variable scope."""

    def __init__(self, cell: CellLike, reuse: object = None) -> None:
        super().__init__(_reuse=reuse)
        check_cell("cell", cell)
        self._cell = cell

    state_size = read_only("_cell.state_size")
    output_size = read_only("_cell.output_size")

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)


class InputProjectionWrapper(_ScopedWrapper):
    """A cell with a linear layer before its inputs."""

    def __init__(
        self,
        cell: CellLike,
        num_proj: int,
        activation: Callable[[Any], Any] | None = None,
        input_size: Any = None,
        reuse: object = None,
    ) -> None:
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs: TensorLike, state: Any = None, *args: object, **kwargs: object) -> Any:
        projected = linear(inputs, self._num_proj, True)
        return self._cell(projected if self._activation is None else self._activation(projected), state)


class OutputProjectionWrapper(_ScopedWrapper):
    """A cell with a linear layer after its output."""

    def __init__(
        self, cell: CellLike, output_size: int, activation: Callable[[Any], Any] | None = None, reuse: object = None
    ) -> None:
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._output_size, self._activation = output_size, activation

    output_size = read_only("_output_size")

    def call(self, inputs: Any, state: Any = None, *args: object, **kwargs: object) -> Any:
        output, new = self._cell(inputs, state)
        projected = linear(output, self._output_size, True)
        return projected if self._activation is None else self._activation(projected), new


class EmbeddingWrapper(_ScopedWrapper):
    """A cell whose inputs are row indices of a table `embedding`."""

    def __init__(
        self,
        cell: CellLike,
        embedding_classes: int,
        embedding_size: int,
        initializer: InitializerLike | None = None,
        reuse: object = None,
    ) -> None:
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}.")
        self._shape, self._initializer = [embedding_classes, embedding_size], initializer

    def call(self, inputs: TensorLike, state: Any = None, *args: object, **kwargs: object) -> Any:
        with tf.device("/cpu:0"):
            initializer = self._initializer or tf.get_variable_scope().initializer
            if initializer is None:
                # rows of variance 1
                initializer = tf.random_uniform_initializer(-(3**0.5), 3**0.5)
            dtype = nest.flatten(state)[0].dtype
            table = tf.get_variable("embedding", self._shape, initializer=initializer, dtype=dtype)
            embedded = tf.nn.embedding_lookup(table, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


class HighwayWrapper(_ScopedWrapper):
    """A cell with a gated bypass of its inputs."""

    def __init__(self, cell: CellLike, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._is_coupled, self._carry_bias = couple_carry_transform_gates, carry_bias_init

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None) -> Any:
        output, new = self._cell(inputs, state, scope=scope)
        nest.assert_same_structure(inputs, output)
        return nest.map_structure(self._highway, inputs, output), new

    def _gate(self, x: Tensor, name: str, bias: float) -> Any:
        width = x.shape.as_list()[-1]
        weights = tf.get_variable(name + "_w", [width, width], x.dtype)
        offset = tf.get_variable(name + "_b", [width], x.dtype, initializer=tf.constant_initializer(bias))
        return tf.sigmoid(tf.nn.xw_plus_b(x, weights, offset))

    def _highway(self, given: Tensor, made: object) -> Any:
        carry = self._gate(given, "carry", self._carry_bias)
        transform = 1 - carry if self._is_coupled else self._gate(given, "transform", -self._carry_bias)
        return given * carry + made * transform


class AttentionCellWrapper(_ScopedWrapper):
    """A cell that attends to its own last `attn_length` outputs."""

    def __init__(
        self,
        cell: CellLike,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: object = None,
    ) -> None:
        super().__init__(cell, reuse)
        if nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError(
                f"Cell returns tuple of states, but the flag state_is_tuple is not set. State size is: {cell.state_size}"
            )
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._length, self._state_is_tuple, self._input_size = attn_length, state_is_tuple, input_size
        self._size = cell.output_size if attn_size is None else attn_size
        self._vec_size = self._size if attn_vec_size is None else attn_vec_size

    @property
    def state_size(self) -> Any:
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    output_size = read_only("_size")

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        return RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs: Any, state: Any = None, *args: object, **kwargs: object) -> Any:
        if not self._state_is_tuple:
            state = tf.split(state, [self._cell.state_size, self._size, self._size * self._length], 1)
        before, attended, memory = state
        memory = tf.reshape(memory, [-1, self._length, self._size])
        width = self._input_size or inputs.shape.as_list()[1]
        output, new = self._cell(linear([inputs, attended], width, True), before)
        query = tf.concat(nest.flatten(new), 1) if self._state_is_tuple else new
        attended, memory = self._attend(query, memory)
        with tf.variable_scope("attn_output_projection"):
            output = linear([output, attended], self._size, True)
        memory = tf.reshape(tf.concat([memory, tf.expand_dims(output, 1)], 1), [-1, self._length * self._size])
        made = (new, attended, memory)
        return output, made if self._state_is_tuple else tf.concat(list(made), 1)

    def _attend(self, query: Tensor, memory: object) -> tuple[Any, Any]:
        """Context vector, and the memory without its oldest part."""
        with tf.variable_scope("attention"):
            weights = tf.get_variable("attn_w", [1, 1, self._size, self._vec_size])
            vector = tf.get_variable("attn_v", [self._vec_size])
            hidden = tf.reshape(memory, [-1, self._length, 1, self._size])
            features = tf.nn.conv2d(hidden, weights, [1, 1, 1, 1], "SAME")
            of_query = tf.reshape(linear(query, self._vec_size, True), [-1, 1, 1, self._vec_size])
            scores = tf.nn.softmax(tf.reduce_sum(vector * tf.tanh(features + of_query), [2, 3]))
            summed = tf.reduce_sum(tf.reshape(scores, [-1, self._length, 1, 1]) * hidden, [1, 2])
            return tf.reshape(summed, [-1, self._size]), tf.slice(memory, [0, 1, 0], [-1, -1, -1])
