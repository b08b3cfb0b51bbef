"""Recurrent networks that are unrolled over a list of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.rnn.cells import CellLike, cache_variables, check_cell, initial_state_of
from placesim.tf1.rnn.states import joined_shape, joined_sizes, state_dtype
from placesim.tf1.rnn.steps import Lengths
from placesim.tf1.types import nest

tf = namespace("")


def static_rnn(
    cell: CellLike,
    inputs: Sequence[Any],
    initial_state: object = None,
    dtype: DTypeLike | None = None,
    sequence_length: TensorLike | None = None,
    scope: object = None,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs.  Return the outputs, and the last state.  Raises TypeError and ValueError."""
    check_cell("cell", cell)
    _check_inputs(inputs)
    outputs = []
    with tf.variable_scope(scope or "rnn") as varscope:
        cache_variables(varscope)
        batch = _batch_size(inputs)
        state = initial_state_of(cell, initial_state, batch, dtype)
        lengths = zeros = None
        if sequence_length is not None:
            sequence_length = convert_to_tensor(sequence_length, name="sequence_length")
            if sequence_length.shape.rank not in (None, 1):
                raise ValueError(
                    f"Argument `sequence_length` must be a vector of length {batch}. "
                    f"Received sequence_length={sequence_length}."
                )
            dtype = state_dtype(dtype, state)
            zeros = nest.map_structure(lambda size: _zero_output(batch, size, dtype), cell.output_size)
            lengths = Lengths(tf.cast(sequence_length, tf.int32))
        for time, value in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()

            def call(value: Any = value, before: Any = state) -> tuple[Any, Any]:
                return cell(value, before)  # type: ignore[no-any-return]

            output, state = call() if lengths is None else lengths.step(time, zeros, state, call, skips_conditionals=False)
            outputs.append(output)
    return outputs, state


def _check_inputs(inputs: Sequence[Any]) -> None:
    if not nest.is_nested(inputs):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")


def _zero_output(batch: object, size: TensorLike, dtype: DTypeLike) -> Any:
    zeros = tf.zeros(joined_sizes(batch, size), dtype=dtype)
    zeros.set_shape(joined_shape(batch if isinstance(batch, int) else None, size))
    return zeros


def _batch_size(inputs: Sequence[Any]) -> Any:
    """Batch size, a number if known.  Raises ValueError if sizes differ or are unknown."""
    first = inputs
    while nest.is_nested(first):
        first = first[0]
    shape: Any = first.shape  # type: ignore[attr-defined]
    if shape.rank is None:
        # TensorFlow fails with this message.
        raise TypeError("'NoneType' object is not subscriptable")
    if shape.rank == 1:
        return tf.shape(first)[0]
    fixed = shape.with_rank_at_least(2).as_list()[0]
    for value in nest.flatten(inputs):
        batch, *sizes = value.shape.as_list()
        for i, size in enumerate(sizes):
            if size is None:
                raise ValueError(
                    f"Input size (dimension {i} of input {value}) must be accessible via shape inference, but saw value None."
                )
        if batch is not None and fixed is not None and batch != fixed:
            raise ValueError(f"Dimensions {fixed} and {batch} are not compatible")
        fixed = batch if fixed is None else fixed
    return tf.shape(first)[0] if fixed is None else fixed


class _StateSaver:
    """Loads and saves all parts of a state with a user's state saver."""

    def __init__(self, saver: Any, names: Any) -> None:
        self.saver, self.names = saver, names

    def load(self, size: Any) -> Any:
        if nest.is_nested(size) != nest.is_nested(self.names):
            raise ValueError(
                "Argument `state_name` should be the same type as `cell.state_size`. "
                f"Received: state_name={self.names}, cell.state_size={size}."
            )
        names = nest.flatten(self.names)
        wanted = len(nest.flatten(size))
        if len(names) != wanted:
            raise ValueError(
                "Number of elements in argument `state_name` and `cell.state_size` are mismatched. Received "
                f"state_name={self.names} with {len(names)} elements and cell.state_size={size} with {wanted} elements."
            )
        return nest.pack_sequence_as(size, [self.saver.state(name) for name in names])

    def save(self, state: Any) -> list[Any]:
        return [
            self.saver.save_state(name, part) for name, part in zip(nest.flatten(self.names), nest.flatten(state), strict=True)
        ]


def static_state_saving_rnn(
    cell: CellLike,
    inputs: Sequence[Any],
    state_saver: object,
    state_name: object,
    sequence_length: TensorLike | None = None,
    scope: object = None,
) -> tuple[list[Any], Any]:
    """`static_rnn` that loads its initial state with a saver, and saves the last state before it returns the last output."""
    saver = _StateSaver(state_saver, state_name)
    state = saver.load(cell.state_size)
    outputs, state = static_rnn(cell, inputs, initial_state=state, sequence_length=sequence_length, scope=scope)
    with tf.control_dependencies(saver.save(state)):
        outputs[-1] = nest.map_structure(tf.identity, outputs[-1])
        state = nest.map_structure(tf.identity, state)
    return outputs, state


def reversed_sequence(inputs: Sequence[Any], lengths: Any) -> list[Any]:
    """The list of inputs in reverse; with `lengths`, each sequence is reversed from its own end."""
    if lengths is None:
        return list(reversed(inputs))
    flat = [nest.flatten(value) for value in inputs]
    columns = []
    for column in zip(*flat, strict=True):
        shape = column[0].shape
        for value in column[1:]:
            shape = shape.merge_with(value.shape)
        stacked = tf.stack(column)
        stacked.set_shape([None, *shape.as_list()] if shape.rank is not None else None)
        turned = tf.unstack(tf.reverse_sequence(stacked, lengths, 0, 1))
        for value in turned:
            value.set_shape(shape)
        columns.append(turned)
    return [nest.pack_sequence_as(value, row) for value, row in zip(inputs, zip(*columns, strict=True), strict=True)]


def static_bidirectional_rnn(
    cell_fw: CellLike,
    cell_bw: CellLike,
    inputs: Sequence[Any],
    initial_state_fw: object = None,
    initial_state_bw: object = None,
    dtype: DTypeLike | None = None,
    sequence_length: TensorLike | None = None,
    scope: object = None,
) -> tuple[list[Any], Any, Any]:
    """Run a cell forwards and a cell backwards.  Return their concatenated outputs, and both last states."""
    check_cell("cell_fw", cell_fw)
    check_cell("cell_bw", cell_bw)
    _check_inputs(inputs)
    with tf.variable_scope(scope or "bidirectional_rnn"):
        with tf.variable_scope("fw") as way:
            forward, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=way)
        with tf.variable_scope("bw") as way:
            turned = reversed_sequence(inputs, sequence_length)
            found, state_bw = static_rnn(cell_bw, turned, initial_state_bw, dtype, sequence_length, scope=way)
    backward = reversed_sequence(found, sequence_length)
    return [_joined(fw, bw) for fw, bw in zip(forward, backward, strict=True)], state_fw, state_bw


def _joined(forward: object, backward: object) -> Any:
    join: Callable[..., Any] = lambda fw, bw: tf.concat([fw, bw], 1)  # noqa: E731
    return nest.map_structure(join, forward, backward)
