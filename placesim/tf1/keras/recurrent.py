"""`tf.keras`' recurrent layers: cells, and layers that apply a cell to each step of sequences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.keras import backend
from placesim.tf1.keras.keras_layer import Layer, named_arguments, read_argument
from placesim.tf1.keras.steps import rnn
from placesim.tf1.layers import layer
from placesim.tf1.rnn.cells import RNNCell
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.initializers import keras_get
from placesim.tf1.variables.variable import Variable

_Value: TypeAlias = Tensor | Variable
"""A tensor, or a variable: weights, or the state that a layer keeps."""

# --- cells ---

_DEFAULTS: dict[str, Any] = {
    "activation": "tanh",
    "recurrent_activation": "hard_sigmoid",
    "use_bias": True,
    "kernel_initializer": "glorot_uniform",
    "recurrent_initializer": "orthogonal",
    "bias_initializer": "zeros",
    "unit_forget_bias": True,
    "kernel_regularizer": None,
    "recurrent_regularizer": None,
    "bias_regularizer": None,
    "kernel_constraint": None,
    "recurrent_constraint": None,
    "bias_constraint": None,
    "dropout": 0.0,
    "recurrent_dropout": 0.0,
    "implementation": 1,
    "reset_after": False,
}
"""Arguments of cells after `units`, and their default values, in the order of all cells."""


class _Cell(Layer):
    """A cell whose kernels for `gates` gates are concatenated in one variable."""

    gates = 1
    lacks: tuple[str, ...] = ()
    """Arguments of other cells that this cell does not take."""
    other_defaults: Mapping[str, Any] = {}
    """Default values that differ from the defaults of other cells."""
    activation: Callable[[Any], Any]
    recurrent_activation: Callable[[Any], Any]
    use_bias: bool
    unit_forget_bias: bool
    bias_initializer: object
    dropout: float
    recurrent_dropout: float
    implementation: int
    reset_after: bool
    bias: Variable | None = None

    def __init__(self, units: int, *args: object, **kwargs: object) -> None:
        if units <= 0:
            raise ValueError(f"Received an invalid value for argument `units`, expected a positive integer, got {units}.")
        names = self.argument_names()
        given = named_arguments(names, args, kwargs)
        super().__init__(**{name: given.pop(name) for name in kwargs if name not in names})
        self.units, self.output_size = units, units
        for name, value in {**_DEFAULTS, **self.other_defaults, **given}.items():
            setattr(self, name, read_argument(name, value))
        self.dropout, self.recurrent_dropout = (min(1.0, max(0.0, rate)) for rate in (self.dropout, self.recurrent_dropout))
        if self.recurrent_dropout:
            self.implementation = 1
        self.forget_masks()

    @classmethod
    def argument_names(cls) -> list[str]:
        """Names of the arguments after `units`."""
        return [name for name in _DEFAULTS if name not in cls.lacks]

    @property
    def state_size(self) -> Any:
        return self.units

    def build(self, input_shape: ShapeLike) -> None:
        columns = self.gates * self.units
        self.kernel = self._weight("kernel", (TensorShape(input_shape).as_list()[-1], columns))
        self.recurrent_kernel = self._weight("recurrent_kernel", (self.units, columns), "recurrent")
        if self.use_bias:
            self.bias = self._weight("bias", self._bias_shape(columns))
        self.built = True

    def _weight(self, name: str, shape: ShapeLike, kind: str = "") -> Any:
        kind = kind or name
        given = {part: getattr(self, f"{kind}_{part}") for part in ("regularizer", "constraint")}
        return self.add_weight(name, shape, initializer=self._initializer(kind), **given)

    def _initializer(self, kind: str) -> Any:
        return getattr(self, f"{kind}_initializer")

    def _bias_shape(self, columns: int) -> tuple[int, ...]:
        return (columns,)

    def get_initial_state(
        self, inputs: Tensor | None = None, batch_size: TensorLike | None = None, dtype: DTypeLike | None = None
    ) -> Any:
        """Zeros for a batch."""
        if inputs is not None:
            batch_size, dtype = tf.shape(inputs)[0], inputs.dtype
        return zero_state(self.state_size, batch_size, dtype)

    # --- dropout, with the same masks in all steps ---

    def forget_masks(self) -> None:
        """Make new dropout masks for the next steps."""
        self._masks: dict[tuple[str, Any], list[Any]] = {}

    def _masks_of(self, inputs: Tensor, state: _Value, training: object) -> tuple[list[Any], list[Any]]:
        """Masks of the gates for inputs and state; empty without dropout of that kind."""
        given = self._masks_like("dropout", inputs, training)
        return given, self._masks_like("recurrent_dropout", state, training)

    def _masks_like(self, kind: str, value: _Value, training: object) -> list[Any]:
        rate, key = getattr(self, kind), (kind, tf.get_default_graph())
        if rate and key not in self._masks:
            ones = tf.compat.v2.ones_like(value)

            def dropped() -> Any:
                return tf.nn.dropout(ones, rate=rate)

            self._masks[key] = [backend.in_train_phase(dropped, ones, training) for _ in range(self.gates)]
        return self._masks[key] if 0 < rate < 1 else []

    def _masked(self, value: _Value, masks: Sequence[Any]) -> list[Any]:
        """The masked value for each gate."""
        return [value * mask for mask in masks] or [value] * self.gates

    def _part(self, weights: _Value | None, gate: int, count: int = 1) -> Any:
        """The weights of a gate, or of `count` gates from it on; None without weights."""
        if weights is None:
            return None
        start = None if gate == 0 else gate * self.units
        stop = None if gate + count == self.gates else (gate + count) * self.units
        return weights[start:stop] if weights.shape.rank == 1 else weights[:, start:stop]


def _add_bias(value: Tensor, bias: _Value | None) -> Any:
    return value if bias is None else tf.nn.bias_add(value, bias)


class SimpleRNNCell(_Cell):
    """A cell with one activation of inputs and state."""

    lacks = ("recurrent_activation", "unit_forget_bias", "implementation", "reset_after")

    def call(self, inputs: Any, states: Any, training: object = None) -> tuple[Any, Any]:  # type: ignore[override]
        before = states[0] if nest.is_nested(states) else states
        masks, state_masks = self._masks_of(inputs, before, training)
        output = _add_bias(tf.matmul(self._masked(inputs, masks)[0], self.kernel), self.bias)
        output = self.activation(output + tf.matmul(self._masked(before, state_masks)[0], self.recurrent_kernel))
        return output, [output] if nest.is_nested(states) else output


class GRUCell(_Cell):
    """A gated recurrent unit; with `reset_after` the reset gate follows the product of state and kernel."""

    gates = 3
    lacks = ("unit_forget_bias",)

    def _bias_shape(self, columns: int) -> tuple[int, ...]:
        return (2, columns) if self.reset_after else (columns,)

    def call(self, inputs: Any, states: Any, training: object = None) -> tuple[Any, Any]:  # type: ignore[override]
        before = states[0] if nest.is_nested(states) else states
        masks, state_masks = self._masks_of(inputs, before, training)
        biases = tf.unstack(self.bias) if self.use_bias and self.reset_after else (self.bias, None)
        gates = self._split_gates if self.implementation == 1 else self._joined_gates
        update, candidate = gates(inputs, before, masks, state_masks, *biases)
        candidate = self.activation(candidate)
        new = update * before + (1 - update) * candidate
        return new, [new] if nest.is_nested(states) else new

    def _split_gates(
        self,
        inputs: Tensor,
        before: _Value,
        masks: Sequence[Any],
        state_masks: Sequence[Any],
        bias: _Value | None,
        state_bias: _Value | None,
    ) -> tuple[Any, Any]:
        given = self._masked(inputs, masks)
        parts = [tf.matmul(value, self._part(self.kernel, gate)) for gate, value in enumerate(given)]
        parts = [_add_bias(part, self._part(bias, gate)) for gate, part in enumerate(parts)]
        *two, last = self._masked(before, state_masks)
        products = [tf.matmul(value, self._part(self.recurrent_kernel, gate)) for gate, value in enumerate(two)]
        products = [_add_bias(product, self._part(state_bias, gate)) for gate, product in enumerate(products)]
        update, reset = (self.recurrent_activation(part + product) for part, product in zip(parts[:2], products, strict=True))
        if not self.reset_after:
            return update, parts[2] + tf.matmul(reset * last, self._part(self.recurrent_kernel, 2))
        product = _add_bias(tf.matmul(last, self._part(self.recurrent_kernel, 2)), self._part(state_bias, 2))
        return update, parts[2] + reset * product

    def _joined_gates(
        self,
        inputs: Tensor,
        before: _Value,
        masks: Sequence[Any],
        state_masks: Sequence[Any],
        bias: _Value | None,
        state_bias: _Value | None,
    ) -> tuple[Any, Any]:
        products = _add_bias(tf.matmul(self._masked(inputs, masks[:1])[0], self.kernel), bias)
        parts = tf.split(products, 3, axis=-1)
        if self.reset_after:
            of_state = _add_bias(tf.matmul(before, self.recurrent_kernel), state_bias)
        else:
            of_state = tf.matmul(before, self._part(self.recurrent_kernel, 0, 2))
        state_parts = tf.split(of_state, [self.units, self.units, -1], axis=-1)
        update, reset = (self.recurrent_activation(parts[gate] + state_parts[gate]) for gate in (0, 1))
        if self.reset_after:
            return update, parts[2] + reset * state_parts[2]
        return update, parts[2] + tf.matmul(reset * before, self._part(self.recurrent_kernel, 2))


class LSTMCell(_Cell):
    """A long short-term memory; its state is a list of output and cell."""

    gates = 4
    lacks = ("reset_after",)

    @property
    def state_size(self) -> Any:
        return [self.units, self.units]

    def _initializer(self, kind: str) -> Any:
        inner, units = super()._initializer(kind), self.units
        if kind != "bias" or not self.unit_forget_bias:
            return inner

        def initializer(_: object, **kwargs: object) -> Any:
            # ones for the forget gate keep the state of early steps
            sizes = ((inner, units), (keras_get("ones"), units), (inner, 2 * units))
            return backend.concatenate([make((size,), **kwargs) for make, size in sizes])

        return initializer

    def call(  # type: ignore[override]
        self, inputs: Tensor, states: Sequence[_Value], training: object = None
    ) -> tuple[Any, Any]:
        output, cell = states
        masks, state_masks = self._masks_of(inputs, output, training)
        make = self._split_gates if self.implementation == 1 else self._joined_gates
        gates = make(inputs, output, masks, state_masks)
        opened = self.recurrent_activation(next(gates))
        kept = self.recurrent_activation(next(gates))
        cell = kept * cell + opened * self.activation(next(gates))
        output = self.recurrent_activation(next(gates)) * self.activation(cell)
        return output, [output, cell]

    def _split_gates(self, inputs: Tensor, before: _Value, masks: Sequence[Any], state_masks: Sequence[Any]) -> Iterator[Any]:
        """Each gate before its activation, made on demand."""
        given = self._masked(inputs, masks)
        kernels = tf.split(self.kernel, num_or_size_splits=4, axis=1)
        parts = [tf.matmul(value, kernel) for value, kernel in zip(given, kernels, strict=True)]
        if self.use_bias:
            biases = tf.split(self.bias, num_or_size_splits=4, axis=0)
            parts = [tf.nn.bias_add(part, bias) for part, bias in zip(parts, biases, strict=True)]
        for gate, (part, state) in enumerate(zip(parts, self._masked(before, state_masks), strict=True)):
            yield part + tf.matmul(state, self._part(self.recurrent_kernel, gate))

    def _joined_gates(self, inputs: Tensor, before: _Value, masks: Sequence[Any], state_masks: Sequence[Any]) -> Iterator[Any]:
        """Each gate before its activation, from one product for all gates."""
        products = tf.matmul(self._masked(inputs, masks[:1])[0], self.kernel) + tf.matmul(before, self.recurrent_kernel)
        yield from tf.split(_add_bias(products, self.bias), num_or_size_splits=4, axis=1)


_VERSION2 = {"recurrent_activation": "sigmoid", "implementation": 2, "reset_after": True}
"""Version 2's default values."""


def _in_version2(kind: type[_Cell]) -> type[_Cell]:
    """Make version 2's class of a cell: it has the same name, but other default values."""
    return type(kind.__name__, (kind,), {"other_defaults": _VERSION2, "__doc__": kind.__doc__, "__module__": __name__})


GRUCellV2, LSTMCellV2 = _in_version2(GRUCell), _in_version2(LSTMCell)


class StackedRNNCells(Layer):
    """A stack of cells as one cell: each cell reads the output of the previous one."""

    def __init__(self, cells: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self) -> Any:
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> Any:
        return output_size(self.cells[-1])

    def get_initial_state(
        self, inputs: Tensor | None = None, batch_size: TensorLike | None = None, dtype: DTypeLike | None = None
    ) -> Any:
        """Zeros for a batch, for each cell."""
        return tuple(cell.get_initial_state(inputs=inputs, batch_size=batch_size, dtype=dtype) for cell in self.cells)

    def build(self, input_shape: ShapeLike) -> None:
        sizes = TensorShape(input_shape).as_list()
        for cell in self.cells:
            build_cell(cell, sizes)
            sizes = [sizes[0], output_size(cell)]
        self.built = True

    def call(self, inputs: object, states: object, training: object = None) -> tuple[Any, Any]:  # type: ignore[override]
        flat, new = nest.flatten(states), []
        for cell, own in zip(self.cells, nest.pack_sequence_as(self.state_size, flat), strict=True):
            inputs, after = call_cell(cell, inputs, own if nest.is_nested(own) else [own], training)
            new.append(after)
        return inputs, nest.pack_sequence_as(self.state_size, nest.flatten(new))


def output_size(cell: Any) -> Any:
    """Size of a cell's output: its `output_size`, else the size of its first state."""
    told = getattr(cell, "output_size", None)
    return nest.flatten(cell.state_size)[0] if told is None else told


def build_cell(cell: object, input_shape: ShapeLike) -> None:
    """Make a cell's variables, in a scope of its name."""
    if isinstance(cell, layer.Layer) and not cell.built:
        with tf.name_scope(cell.name):
            cell.build(input_shape)
            cell.built = True


def call_cell(cell: Any, inputs: object, states: Sequence[Any], training: object) -> tuple[Any, Any]:
    """Call a cell with a list of states; a cell of `tf.nn.rnn_cell` gets a single state as it is."""
    kwargs = {"training": training} if "training" in inspect.signature(cell.call).parameters else {}
    return cell(inputs, states[0] if len(states) == 1 and isinstance(cell, RNNCell) else states, **kwargs)  # type: ignore[no-any-return]


def zero_state(sizes: object, batch_size: TensorLike | None, dtype: DTypeLike | None) -> Any:
    """Zeros for a batch, in the structure of `sizes`."""
    return nest.map_structure(lambda size: tf.zeros([batch_size, *TensorShape(size).as_list()], dtype), sizes)


# --- layers ---


class RNN(Layer):
    """Applies a cell to each step of `inputs [batch, time, ...]`."""

    notes_runtime = False
    """Whether a constant marks that the implementation is chosen at run time."""

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        if "call" not in dir(cell):
            raise ValueError(f"Argument `cell` should have a `call` method. The RNN was passed: cell={cell}")
        if "state_size" not in dir(cell):
            raise ValueError(
                "The RNN cell should have a `state_size` attribute (tuple of integers, one integer per RNN state). "
                f"Received: cell={cell}"
            )
        self.zero_output_for_mask = kwargs.pop("zero_output_for_mask", False)
        super().__init__(**kwargs)
        self.cell, self.return_sequences, self.return_state = cell, return_sequences, return_state
        self.go_backwards, self.stateful, self.unroll, self.time_major = go_backwards, stateful, unroll, time_major
        none = nest.map_structure(lambda _: None, cell.state_size)
        self.states: Sequence[Any] = none if nest.is_nested(none) else [none]
        self.supports_masking = True
        self._state_spec: object = None

    def clone(self, **changes: object) -> Any:
        """As for other layers; the cell has the same name too."""
        layer = super().clone(**changes)
        layer.cell._name = self.cell.name
        return layer

    @property
    def units(self) -> int:
        return self.cell.units  # type: ignore[no-any-return]

    def build(self, input_shape: ShapeLike) -> None:
        sizes = TensorShape(input_shape).as_list()
        batch, steps = (1, 0) if self.time_major else (0, 1)
        build_cell(self.cell, [size for axis, size in enumerate(sizes) if axis != steps])
        self._check_state()
        if self.stateful and nest.flatten(self.states)[0] is None:
            if not sizes[batch]:
                raise ValueError(_UNKNOWN_BATCH)
            zeros = self.cell.get_initial_state(inputs=None, batch_size=sizes[batch], dtype=tf.float32)
            made = nest.map_structure(lambda value: tf.Variable(value, use_resource=True), zeros)
            self.states = made if nest.is_nested(made) else [made]
        self.input_spec = layer.InputSpec(
            shape=tuple(size if (axis == batch and self.stateful) or axis > 1 else None for axis, size in enumerate(sizes))
        )
        self.built = True

    def _check_state(self) -> None:
        """Raise ValueError for an initial state that does not fit the cell's."""
        if self._state_spec is None:
            return
        given, wanted = nest.flatten(self._state_spec), self.cell.state_size
        wanted = list(wanted) if nest.is_nested(wanted) else [wanted]
        sizes = nest.flatten(wanted)
        fits = len(given) == len(sizes) and all(
            TensorShape(shape[1:]).is_compatible_with(TensorShape(size)) for shape, size in zip(given, sizes, strict=True)
        )
        if not fits:
            specs = ", ".join(f"InputSpec(shape={tuple(shape.as_list())}, ndim={shape.rank})" for shape in given)
            raise ValueError(
                "An `initial_state` was passed that is not compatible with `cell.state_size`. Received "
                f"`state_spec`=ListWrapper([{specs}]); however `cell.state_size` is {wanted}"
            )

    def compute_mask(self, inputs: object, mask: object = None) -> Any:
        """The mask of the outputs: the mask of the inputs if the layer returns sequences, else None."""
        kept = nest.flatten(mask)[0] if self.return_sequences else None
        return [kept, *(None for _ in self.states)] if self.return_state else kept

    def get_initial_state(self, inputs: object) -> list[Any]:
        """The cell's state before the first step."""
        first = nest.flatten(inputs)[0]
        batch = tf.shape(first)[1 if self.time_major else 0]
        make = getattr(self.cell, "get_initial_state", None)
        if make is None:
            state = zero_state(self.cell.state_size, batch, first.dtype)
        else:
            state = make(inputs=None, batch_size=batch, dtype=first.dtype)
        return list(state) if nest.is_nested(state) else [state]

    def __call__(self, inputs: object, initial_state: object = None, **kwargs: object) -> Any:
        """Apply the layer; an initial state may also follow the inputs in a list."""
        inputs, states = with_states(inputs, initial_state)
        if states:
            _check_kinds(states["initial_state"])
            self._state_spec = nest.map_structure(lambda state: state.shape, states["initial_state"])
        return super().__call__(inputs, **states, **kwargs)

    def call(  # type: ignore[override]
        self, inputs: object, mask: object = None, training: object = None, initial_state: Sequence[Any] | None = None
    ) -> Any:
        if initial_state is None:
            initial_state = self.states if self.stateful else self.get_initial_state(inputs)
        if len(initial_state) != len(self.states):
            raise ValueError(
                f"Layer has {len(self.states)} states but was passed {len(initial_state)} initial states. "
                f"Received: initial_state={initial_state}"
            )
        for cell in (self.cell, *getattr(self.cell, "cells", ())):
            if isinstance(cell, _Cell):
                cell.forget_masks()
        if self.unroll and nest.flatten(inputs)[0].shape.as_list()[0 if self.time_major else 1] is None:
            raise ValueError(_UNKNOWN_STEPS)

        def step(values: object, states: Sequence[Any]) -> tuple[Any, Any]:
            output, new = call_cell(self.cell, values, states, training)
            return output, new if nest.is_nested(new) else [new]

        last, outputs, states = rnn(
            step,
            inputs,
            initial_state,
            self.go_backwards,
            None if mask is None else nest.flatten(mask)[0],
            unroll=self.unroll,
            time_major=self.time_major,
            zero_output_for_mask=self.zero_output_for_mask,
        )
        if self.notes_runtime:
            with tf.device("/cpu:0"):
                tf.constant(0.0, name="runtime")
        if self.stateful:
            pairs = zip(nest.flatten(self.states), nest.flatten(states), strict=True)
            self.add_update([tf.assign(variable, value) for variable, value in pairs])
        output = outputs if self.return_sequences else last
        return [output, *states] if self.return_state else output


def with_states(inputs: object, states: object) -> tuple[Any, dict[str, Any]]:
    """Inputs without the states that follow them in a list, and the argument that holds the states, if there are any."""
    if isinstance(inputs, list):
        inputs, *following = inputs
        states = following or states
    if states is None:
        return inputs, {}
    return inputs, {"initial_state": list(states) if isinstance(states, (list, tuple)) else [states]}


def _check_kinds(states: object) -> None:
    """Raise ValueError if only some of the initial states are tensors of a model."""
    if len({hasattr(state, "keras_call") for state in nest.flatten(states)}) > 1:
        raise ValueError(
            "The initial state or constants of an RNN layer cannot be specified via a mix of TF-Keras tensors and non-Keras "
            'tensors (a "Keras tensor" is a tensor that was returned by a TF-Keras layer  or by `Input` during Functional '
            f"model construction). Received: initial_state={states}, constants=None"
        )


_UNKNOWN_STEPS = """Cannot unroll a RNN if the time dimension is undefined. \n\
- If using a Sequential model, specify the time dimension by passing an `input_shape` or `batch_input_shape` argument to your \
first layer. If your first layer is an Embedding, you can also use the `input_length` argument.
- If using the functional API, specify the time dimension by passing a `shape` or `batch_shape` argument to your Input layer."""
_UNKNOWN_BATCH = """If a RNN is stateful, it needs to know its batch size. Specify the batch size of your input tensors: \n\
- If using a Sequential model, specify the batch size by passing a `batch_input_shape` argument to your first layer.
- If using the functional API, specify the batch size by passing a `batch_shape` argument to your Input layer."""


def _layer(kind: type[_Cell], name: str, described: str) -> Any:
    """Make the layer class of a cell class. It takes the arguments of the cell and of `RNN`."""
    names = kind.argument_names()
    own = ["activity_regularizer", "return_sequences", "return_state", "go_backwards", "stateful", "unroll"]
    place = names.index("bias_regularizer") + 1
    after = [name for name in names[place:] if name not in ("implementation", "reset_after")]
    order = [*names[:place], own[0], *after, *own[1:]]

    def __init__(self: RNN, units: int, *args: object, **kwargs: object) -> None:  # noqa: N807
        given = named_arguments(order, args, kwargs)
        shared = {key: given[key] for key in ("dtype", "trainable") if key in given}
        cell = kind(
            units, name=f"{layer.word_of(name)}_cell", **shared, **{key: given.pop(key) for key in names if key in given}
        )
        RNN.__init__(self, cell, **given)
        self.input_spec = layer.InputSpec(ndim=3)

    members = {"__init__": __init__, "notes_runtime": bool(kind.other_defaults), "__doc__": described, "__module__": __name__}
    return type(name, (RNN,), members)


LSTM = _layer(LSTMCell, "LSTM", "A layer of `LSTMCell`.")
GRU = _layer(GRUCell, "GRU", "A layer of `GRUCell`.")
LSTMV2 = _layer(LSTMCellV2, "LSTM", "A layer of version 2's `LSTMCell`.")
GRUV2 = _layer(GRUCellV2, "GRU", "A layer of version 2's `GRUCell`.")
SimpleRNN = _layer(SimpleRNNCell, "SimpleRNN", "A layer of `SimpleRNNCell`.")
