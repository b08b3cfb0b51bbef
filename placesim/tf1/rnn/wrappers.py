"""Cells made of other cells: stacked cells, and wrappers for dropout, residual connections and devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.layers.layer import Layer
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.random.seeds import salted_seed
from placesim.tf1.rnn.cells import CellLike, RNNCell, check_cell
from placesim.tf1.rnn.lstm import LSTMStateTuple
from placesim.tf1.rnn.states import sizes_of
from placesim.tf1.types import nest
from placesim.tf1.types.read_only import read_only

tf = namespace("")


class MultiRNNCell(RNNCell):
    """Stacked cells: each reads the output of the one below."""

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but received: {cells}.")
        self._cells, self._state_is_tuple = list(cells), state_is_tuple
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in cells):
            sizes = [cell.state_size for cell in cells]
            raise ValueError(
                f"Some cells return tuples of states, but the flag state_is_tuple is not set. State sizes are: {sizes}"
            )

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    @property
    def _layers(self) -> list[Layer]:
        return [cell for cell in self._cells if isinstance(cell, Layer)]

    @property
    def trainable_variables(self) -> list[Any]:
        return [variable for cell in self._layers for variable in cell.trainable_variables] if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        own = [variable for cell in self._layers for variable in cell.non_trainable_variables]
        return own if self.trainable else own + [variable for cell in self._layers for variable in cell.trainable_variables]

    trainable_weights, non_trainable_weights = trainable_variables, non_trainable_variables

    def call(self, inputs: TensorLike, state: Any = None, *args: object, **kwargs: object) -> Any:
        states = []
        position = 0
        for i, cell in enumerate(self._cells):
            with tf.variable_scope(f"cell_{i}"):
                if self._state_is_tuple:
                    if not nest.is_nested(state):
                        raise ValueError(
                            f"Expected state to be a tuple of length {len(self.state_size)}, but received: {state}"
                        )
                    own = state[i]
                else:
                    own = tf.slice(state, [0, position], [-1, cell.state_size])
                    position += cell.state_size
                inputs, new = cell(inputs, own)
                states.append(new)
        return inputs, tuple(states) if self._state_is_tuple else tf.concat(states, 1)


class _Wrapper(RNNCell):
    """Base of cell wrappers, which have the inner cell's sizes, but as in TensorFlow not its variables, and open no scope."""

    def __init__(self, cell: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_cell("cell", cell)
        self.cell = cell

    wrapped_cell = read_only("cell")
    state_size = read_only("cell.state_size")
    output_size = read_only("cell.output_size")

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None) -> Any:
        return self._around(inputs, state, lambda given, before: self.cell(given, before, scope=scope))

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        return self._around(inputs, state, lambda given, before: self.cell.call(given, before, *args, **kwargs))

    def _around(self, inputs: TensorLike, state: object, call: Callable[[Any, Any], Any]) -> Any:
        """Apply the wrapper to inputs and state; `call` is the cell."""
        raise NotImplementedError


def _is_dropped(part: object) -> Any:
    """Mask of the parts of a state that are dropped: all except TensorArrays and an LSTM's cell state."""
    if isinstance(part, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(part, TensorArray)


class DropoutWrapper(_Wrapper):
    """A cell with dropout of inputs, outputs and state; with `variational_recurrent`, the same mask in each step."""

    def __init__(
        self,
        cell: CellLike,
        input_keep_prob: TensorLike = 1.0,
        output_keep_prob: TensorLike = 1.0,
        state_keep_prob: TensorLike = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: DTypeLike | None = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError(f"dropout_state_filter_visitor must be callable. Received: {dropout_state_filter_visitor}")
        self._filter = dropout_state_filter_visitor or _is_dropped
        with tf.name_scope("DropoutWrapperInit"):
            self._input_keep_prob = _probability("input_keep_prob", input_keep_prob)
            self._state_keep_prob = _probability("state_keep_prob", state_keep_prob)
            self._output_keep_prob = _probability("output_keep_prob", output_keep_prob)
        self._variational_recurrent, self._seed = variational_recurrent, seed
        self._noise: dict[str, list[Any]] = {}
        if variational_recurrent:
            self._make_noise(dtype, input_size)

    def build(self, input_shape: ShapeLike) -> None:
        """Make the inner cell's variables, as no other wrapper does."""
        self.cell.build(input_shape)
        super().build(input_shape)

    def _make_noise(self, dtype: DTypeLike | None, input_size: object) -> None:
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        sizes = {"state": self.cell.state_size, "output": self.cell.output_size}
        if _may_drop(self._input_keep_prob):
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be provided"
                )
            sizes = {"input": input_size, **sizes}
        for salt, size in sizes.items():
            self._noise[salt] = [
                tf.random_uniform(tf.concat(([1], sizes_of(leaf)), 0), seed=salted_seed(self._seed, f"{salt}_{i}"), dtype=dtype)
                for i, leaf in enumerate(nest.flatten(size))
            ]

    def _around(self, inputs: TensorLike, state: object, call: Callable[[Any, Any], Any]) -> Any:
        if _may_drop(self._input_keep_prob):
            inputs = self._dropped(inputs, "input", self._input_keep_prob)
        output, new_state = call(inputs, state)
        if _may_drop(self._state_keep_prob):
            new_state = self._dropped(new_state, "state", self._state_keep_prob, self._marks(new_state))
        if _may_drop(self._output_keep_prob):
            output = self._dropped(output, "output", self._output_keep_prob)
        return output, new_state

    def _marks(self, state: object) -> list[bool]:
        """For each tensor of a state whether it is dropped."""
        marks: list[bool] = []

        def visit(part: object) -> None:
            found = self._filter(part)
            if isinstance(found, bool) and nest.is_nested(part):
                if found:
                    for inner in nest.parts(part):
                        visit(inner)
                else:
                    marks.extend([False] * len(nest.flatten(part)))
            elif isinstance(found, bool):
                marks.append(found)
            else:
                marks.extend(nest.flatten(found))

        visit(state)
        return marks

    def _dropped(self, values: TensorLike, salt: str, keep: object, marks: Sequence[bool] | None = None) -> Any:
        flat = nest.flatten(values)
        done = [
            value if marks is not None and not marks[i] else self._drop(value, salt, i, keep) for i, value in enumerate(flat)
        ]
        return nest.pack_sequence_as(values, done)

    def _drop(self, value: Tensor, salt: str, index: int, keep: object) -> Any:
        if not self._variational_recurrent:
            return tf.nn.dropout(value, keep_prob=keep, seed=salted_seed(self._seed, f"{salt}_{index}"))
        kept = tf.floor(keep + self._noise[salt][index])
        dropped = tf.divide(value, keep) * kept
        dropped.set_shape(value.shape)
        return dropped


def _probability(name: str, given: TensorLike) -> Any:
    """A number if known, else a tensor.  Raises ValueError for an invalid probability."""
    tensor = convert_to_tensor(given)
    value = constant_value(tensor)
    if value is None:
        return tensor
    if not 0 <= value <= 1:
        raise ValueError(f"Parameter {name} must be between 0 and 1. Received {value}")
    return float(value)


def _may_drop(keep: object) -> bool:
    return not isinstance(keep, float) or keep < 1


class ResidualWrapper(_Wrapper):
    """A cell that adds its inputs to its outputs."""

    def __init__(self, cell: CellLike, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _around(self, inputs: TensorLike, state: object, call: Callable[[Any, Any], Any]) -> Any:
        outputs, new_state = call(inputs, state)
        return (self._residual_fn or _added)(inputs, outputs), new_state


def _added(inputs: TensorLike, outputs: object) -> Any:
    nest.assert_same_structure(inputs, outputs)
    for before, after in zip(nest.flatten(inputs), nest.flatten(outputs), strict=True):
        before.shape.assert_is_compatible_with(after.shape)
    return nest.map_structure(lambda before, after: before + after, inputs, outputs)


class DeviceWrapper(_Wrapper):
    """A cell whose ops are requested on a device."""

    def __init__(self, cell: CellLike, device: object, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]), tf.device(self._device):
            return self.cell.zero_state(batch_size, dtype)

    def _around(self, inputs: TensorLike, state: object, call: Callable[[Any, Any], Any]) -> Any:
        with tf.device(self._device):
            return call(inputs, state)
