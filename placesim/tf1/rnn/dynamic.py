"""Recurrent networks that run in a loop over the steps of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.rnn.cells import CellLike, cache_variables, check_cell, initial_state_of
from placesim.tf1.rnn.states import batch_size_of, joined_shape, joined_sizes, sizes_of, state_dtype
from placesim.tf1.rnn.steps import Lengths
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")


def swapped(x: Tensor) -> Any:
    """The tensor with its first two dimensions, batch and time, swapped."""
    shape = x.shape
    if shape.rank is not None and shape.rank < 2:
        return x
    turned = tf.transpose(x, tf.concat(([1, 0], tf.range(2, tf.rank(x))), axis=0))
    if shape.rank is None:
        # TensorFlow fails with this message.
        raise TypeError("'NoneType' object is not subscriptable")
    batch, time, *rest = shape.as_list()
    turned.set_shape([time, batch, *rest])
    return turned


def dynamic_rnn(
    cell: CellLike,
    inputs: TensorLike,
    sequence_length: TensorLike | None = None,
    initial_state: object = None,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: object = None,
) -> tuple[Any, Any]:
    """Run a cell over the steps of `inputs [batch, time, ...]` in a loop.  Return all outputs, and the last state."""
    check_cell("cell", cell)
    with tf.variable_scope(scope or "rnn") as varscope:
        cache_variables(varscope)
        flat = nest.flatten(inputs)
        if not time_major:
            flat = [swapped(convert_to_tensor(value)) for value in flat]
        lengths = None if sequence_length is None else _as_lengths(sequence_length)
        batch = batch_size_of(flat)
        state = initial_state_of(cell, initial_state, batch, dtype)
        if lengths is not None:
            lengths = _checked(lengths, batch)
        steps = nest.pack_sequence_as(inputs, flat)
        loop = _Loop(cell, steps, state, lengths, dtype)
        outputs, state = loop.run(parallel_iterations or 32, swap_memory)
        if not time_major:
            outputs = nest.map_structure(swapped, outputs)
    return outputs, state


def _as_lengths(given: object) -> Any:
    lengths = tf.cast(given, tf.int32)
    if lengths.shape.rank not in (None, 1):
        raise ValueError(
            "Argument sequence_length must be a vector of length batch_size. "
            f"Received sequence_length={lengths} of shape: {lengths.shape}"
        )
    return tf.identity(lengths, name="sequence_length")


def _checked(lengths: Tensor, batch: object) -> Any:
    """The lengths, after an assertion op that checks that there is one for each sequence."""
    shape, wanted = tf.shape(lengths), tf.stack([batch])
    words = [f"Expected shape for Tensor {lengths.name} is ", wanted, " but saw shape: ", shape]
    check = tf.Assert(tf.reduce_all(tf.equal(shape, wanted)), words)
    with tf.control_dependencies([check]):
        return tf.identity(lengths, name="CheckSeqLen")


class _Loop:
    """Loop of one network over time-major inputs."""

    def __init__(self, cell: CellLike, inputs: Any, state: Any, lengths: TensorLike | None, dtype: DTypeLike | None) -> None:
        self.cell, self.inputs, self.state = cell, inputs, state
        self.flat = nest.flatten(inputs)
        self.steps = tf.shape(self.flat[0])[0]
        self.known_steps, self.known_batch = _known_sizes(self.flat)
        batch = batch_size_of(self.flat)
        self.sizes = nest.flatten(cell.output_size)
        zeros = [tf.zeros(joined_sizes(batch, size), state_dtype(dtype, state)) for size in self.sizes]
        self.zeros = nest.pack_sequence_as(cell.output_size, zeros)
        self.lengths = None if lengths is None else Lengths(lengths)
        # Outputs have the type of the state, unless a type is given.
        self.types = [state_dtype(dtype, state)] * len(self.sizes)
        self.longest: Any = self.steps if self.lengths is None else self.lengths.longest

    def _arrays(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """TensorArrays for the outputs, and TensorArrays of the inputs' steps."""
        with tf.name_scope("dynamic_rnn") as scope:
            base = scope
        outputs = tuple(
            self._array(f"{base}output_{i}", [self.known_batch, *sizes_of(size)], dtype)
            for i, (size, dtype) in enumerate(zip(self.sizes, self.types, strict=True))
        )
        inputs = tuple(
            self._array(f"{base}input_{i}", value.shape.as_list()[1:], value.dtype) for i, value in enumerate(self.flat)
        )
        return outputs, tuple(array.unstack(value) for array, value in zip(inputs, self.flat, strict=True))

    def _array(self, name: str, element_shape: ShapeLike, dtype: DTypeLike) -> TensorArray:
        return TensorArray(dtype, size=self.steps, element_shape=element_shape, tensor_array_name=name)

    def run(self, parallel_iterations: int, swap_memory: bool) -> tuple[Any, Any]:
        """All outputs, and the last state."""
        time = constant(0, dtype="int32", name="time")
        outputs, inputs = self._arrays()
        # Without any step, the outputs would have no shape.
        bound = tf.minimum(self.steps, tf.maximum(1, self.longest))

        def body(time: Tensor, outputs: object, state: object) -> tuple[Any, Any, Any]:
            return self._step(time, outputs, state, inputs)

        _, outputs, state = tf.while_loop(
            lambda time, *_: time < bound,
            body,
            (time, outputs, self.state),
            parallel_iterations=parallel_iterations,
            maximum_iterations=self.steps,
            swap_memory=swap_memory,
        )
        stacked = [array.stack() for array in outputs]
        for tensor, size in zip(stacked, self.sizes, strict=True):
            tensor.set_shape(joined_shape(TensorShape([self.known_steps, self.known_batch]), size))
        return nest.pack_sequence_as(self.cell.output_size, stacked), state

    def _step(self, time: Tensor, outputs: Any, state: Any, inputs: Sequence[TensorArray]) -> tuple[Any, Any, Any]:
        read = [array.read(time) for array in inputs]
        for tensor, value in zip(read, self.flat, strict=True):
            tensor.set_shape(value.shape[1:])
        packed = nest.pack_sequence_as(self.inputs, read)

        def call() -> tuple[Any, Any]:
            return self.cell(packed, state)  # type: ignore[no-any-return]

        if self.lengths is None:
            output, state = call()
        else:
            output, state = self.lengths.step(time, self.zeros, state, call, skips_conditionals=True)
        written = tuple(array.write(time, tensor) for array, tensor in zip(outputs, nest.flatten(output), strict=True))
        return time + 1, written, state


def _known_sizes(inputs: Sequence[Any]) -> tuple[int | None, int | None]:
    """Static steps and batch size.  Raises ValueError for unknown depths or differing inputs."""
    shapes = [value.shape.with_rank_at_least(3).as_list() for value in inputs]
    first = shapes[0]
    for value, shape in zip(inputs, shapes, strict=True):
        if None in shape[2:]:
            raise ValueError(
                f"Input size (depth of inputs) must be accessible via shape inference, but saw value None for input={value}."
            )
        if shape[0] != first[0]:
            raise ValueError(
                "Time steps is not the same for all the elements in the input in a batch. "
                f"Received time steps={shape[0]} for input={value}."
            )
        if shape[1] != first[1]:
            raise ValueError(
                "Batch_size is not the same for all the elements in the input. "
                f"Received batch size={shape[1]} for input={value}."
            )
    return first[0], first[1]


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: TensorLike | None = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Run a cell forwards and a cell backwards.  Return the pair of their outputs, and the pair of their last states."""
    check_cell("cell_fw", cell_fw)
    check_cell("cell_bw", cell_bw)
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def turned(value: TensorLike) -> Any:
        if sequence_length is None:
            return tf.reverse(value, axis=[time_axis])
        return tf.reverse_sequence(input=value, seq_lengths=sequence_length, seq_axis=time_axis, batch_axis=batch_axis)

    options: dict[str, Any] = {
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }
    with tf.variable_scope(scope or "bidirectional_rnn"):
        with tf.variable_scope("fw") as way:
            forward, state_fw = dynamic_rnn(cell_fw, inputs, sequence_length, initial_state_fw, scope=way, **options)
        with tf.variable_scope("bw") as way:
            backwards = nest.map_structure(turned, inputs)
            found, state_bw = dynamic_rnn(cell_bw, backwards, sequence_length, initial_state_bw, scope=way, **options)
    return (forward, nest.map_structure(turned, found)), (state_fw, state_bw)
