"""Cells of recurrent networks: base classes, `BasicRNNCell` and `GRUCell`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, InitializerLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.keras import activations
from placesim.tf1.layers.layer import InputSpec, Layer
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.rnn.states import zeros_of
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")


class CellLike(Protocol):
    """A recurrent cell: an `RNNCell`, or an object that `check_cell` accepts."""

    @property
    def state_size(self) -> Any: ...
    @property
    def output_size(self) -> Any: ...
    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any: ...
    def __call__(self, inputs: Any, state: Any = None, scope: Any = None) -> Any: ...


class RNNCell(Layer):
    """Base of all cells, also of users' classes, whose `call(inputs, state)` returns output and new state."""

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: DTypeLike | None = None, **kwargs: Any) -> None:
        super().__init__(trainable, name, dtype, **kwargs)
        self._cell_scope: Any = None

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None) -> Any:
        """Call the cell in a variable scope: the given one, else that of the first call."""
        if scope is not None:
            with tf.variable_scope(scope, custom_getter=self._taken) as scope:
                return super().__call__(inputs, state, scope=scope)
        # A user's class may not call super().__init__().
        opened = self.__dict__.get("_cell_scope")
        if opened is None:
            opened = self._cell_scope = tf.variable_scope(tf.get_variable_scope(), custom_getter=self._taken)
        with opened:
            return super().__call__(inputs, state)

    def _taken(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        """Custom getter that registers each variable as a variable of the cell."""
        variable = getter(*args, **kwargs)
        trainable = kwargs.get("trainable")
        trains = trainable is None or bool(trainable)
        for part in variable if hasattr(variable, "_get_variable_list") else [variable]:
            if not any(part is known for known in self._variables):
                self._variables.append(part)
                self._trainable.append(trains)
        return variable

    @property
    def state_size(self) -> Any:
        """Sizes of the state's parts, in the structure of the state."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """Sizes of the outputs, in their structure."""
        raise NotImplementedError("Abstract method")

    def get_initial_state(
        self, inputs: TensorLike | None = None, batch_size: TensorLike | None = None, dtype: DTypeLike | None = None
    ) -> Any:
        """A zero state for inputs, or for a batch size and type.  Raises ValueError if neither is given."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs, name="inputs")
            known = inputs.shape.as_list()[0]
            if batch_size is not None and (isinstance(batch_size, Tensor) or known != batch_size):
                raise ValueError(
                    "batch size from input tensor is different from the input param. "
                    f"Input tensor batch: {known}, batch_size: {batch_size}"
                )
            if dtype is not None and inputs.dtype != dtype:
                raise ValueError(
                    "dtype from input tensor is different from the input param. "
                    f"Input tensor dtype: {inputs.dtype}, dtype: {dtype}"
                )
            batch_size = known if known is not None else tf.shape(inputs)[0]
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                f"batch_size and dtype cannot be None while constructing initial state: batch_size={batch_size}, dtype={dtype}"
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Zero state for a batch of sequences."""
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return zeros_of(self.state_size, batch_size, dtype)


def check_cell(name: str, cell: object) -> None:
    """Raise TypeError for an object that is not a cell."""
    has_state = hasattr(cell, "zero_state") or hasattr(cell, "get_initial_state")
    checks = (
        (hasattr(cell, "output_size"), "'output_size' property is missing"),
        (hasattr(cell, "state_size"), "'state_size' property is missing"),
        (has_state, "either 'zero_state' or 'get_initial_state' method is required"),
        (callable(cell), "is not callable"),
    )
    missing = [words for holds, words in checks if not holds]
    if missing:
        raise TypeError(f"The argument {name!r} ({cell}) is not an RNNCell: {', '.join(missing)}.")


def initial_state_of(cell: Any, given: object, batch_size: TensorLike, dtype: DTypeLike | None) -> Any:
    """The given initial state, else the cell's own for a batch of sequences.  Raises ValueError without a type."""
    if given is not None:
        return given
    if not dtype:
        raise ValueError("If no initial_state is provided, argument `dtype` must be specified")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def cache_variables(scope: Any) -> None:
    """Cache a scope's variables at their uses, except inside a loop."""
    if scope.caching_device is None and _loop_around() is None:
        scope.set_caching_device(lambda op: op.device)


def _loop_around() -> Any:
    context = tf.get_default_graph()._control_flow_context
    return None if context is None else context.while_context


class LayerRNNCell(RNNCell):
    """A cell that makes and owns its variables like a layer."""

    def __call__(self, inputs: TensorLike, state: object = None, scope: object = None, *args: object, **kwargs: object) -> Any:
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)


class UnitSizes:
    """Sizes of a cell whose state and output have `num_units` elements."""

    _num_units: Any

    state_size = read_only("_num_units")
    output_size = read_only("_num_units")


class UnitCell(UnitSizes, LayerRNNCell):
    """A cell of `num_units` units with an activation."""

    def __init__(
        self,
        num_units: Any,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, dtype=dtype, _reuse=reuse, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation)

    def _depth(self, input_shape: ShapeLike) -> int:
        """Size of the inputs.  Raises ValueError if unknown."""
        sizes = TensorShape(input_shape).as_list()
        if sizes[-1] is None:
            raise ValueError(f"Expected inputs.shape[-1] to be known, received shape: {tuple(sizes)}")
        return int(sizes[-1])

    def _add_bias(self, name: str, size: int, value: float = 0.0) -> Any:
        dtype = self._given_dtype or tf.float32
        kind = tf.constant_initializer(value, dtype=dtype) if value else tf.zeros_initializer(dtype)
        return self.add_weight(name, [size], initializer=kind)


def _activation(given: object) -> Any:
    """Activation by name or as a function; tanh by default."""
    return tf.tanh if given is None else activations.get(given)


class BasicRNNCell(UnitCell):
    """`activation([inputs, state] . kernel + bias)`."""

    def build(self, input_shape: ShapeLike) -> None:
        depth = self._depth(input_shape)
        self._kernel = self.add_weight("kernel", [depth + self._num_units, self._num_units])
        self._bias = self._add_bias("bias", self._num_units)
        self.built = True

    def call(self, inputs: TensorLike, state: object = None, *args: object, **kwargs: object) -> Any:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._kernel), self._bias)
        output = self._activation(gates)
        return output, output


class GRUCell(UnitCell):
    """A gated recurrent unit."""

    def __init__(
        self,
        num_units: Any,
        activation: Callable[[Any], Any] | None = None,
        reuse: object = None,
        kernel_initializer: InitializerLike | None = None,
        bias_initializer: InitializerLike | None = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

    def build(self, input_shape: ShapeLike) -> None:
        depth, units = self._depth(input_shape), self._num_units
        self._gate_kernel, self._gate_bias = self._add_pair("gates", depth + units, 2 * units, 1.0)
        self._candidate_kernel, self._candidate_bias = self._add_pair("candidate", depth + units, units, 0.0)
        self.built = True

    def _add_pair(self, name: str, rows: int, columns: int, bias: float) -> tuple[Any, Any]:
        kernel = self.add_weight(name + "/kernel", [rows, columns], initializer=self._kernel_initializer)
        if self._bias_initializer is not None:
            return kernel, self.add_weight(name + "/bias", [columns], initializer=self._bias_initializer)
        return kernel, self._add_bias(name + "/bias", columns, bias)

    def call(self, inputs: TensorLike, state: object = None, *args: object, **kwargs: object) -> Any:
        gates = tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel)
        reset, update = tf.split(value=tf.sigmoid(tf.nn.bias_add(gates, self._gate_bias)), num_or_size_splits=2, axis=1)
        candidate = tf.matmul(tf.concat([inputs, reset * state], 1), self._candidate_kernel)
        candidate = self._activation(tf.nn.bias_add(candidate, self._candidate_bias))
        new = update * state + (1 - update) * candidate
        return new, new
