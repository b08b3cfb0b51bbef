"""`tf.nn.raw_rnn`: a loop whose inputs and states are computed by a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant
from placesim.tf1.rnn.cells import CellLike, cache_variables, check_cell
from placesim.tf1.rnn.states import batch_size_of, joined_sizes, sizes_of
from placesim.tf1.rnn.steps import kept_where
from placesim.tf1.types import nest

tf = namespace("")


def raw_rnn(
    cell: CellLike,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: object = None,
) -> tuple[Any, Any, Any]:
    """Run a cell in a loop with the inputs and states of `loop_fn`.

    Return TensorArrays of the outputs, the last state, and the last loop state of `loop_fn`.
    """
    check_cell("cell", cell)
    if not callable(loop_fn):
        raise TypeError(f"Argument `loop_fn` must be a callable. Received: {loop_fn}.")
    with tf.variable_scope(scope or "rnn") as varscope:
        cache_variables(varscope)
        time = constant(0, dtype="int32")
        finished, inputs, state, first_output, carried = loop_fn(time, None, None, None)
        flat = nest.flatten(inputs)
        # The loop needs a tensor as its variable.
        carried = constant(0, dtype="int32") if carried is None else carried
        shapes = [value.shape for value in flat]
        batch = batch_size_of(flat, axis=0)
        nest.assert_same_structure(cell.state_size, state)
        known = shapes[0].as_list()[0] if shapes[0].rank else None
        outputs, zeros = _outputs(cell.output_size, state, first_output, known, batch)

        def goes_on(time: object, finished: object, *_: object) -> Any:
            return tf.logical_not(tf.reduce_all(finished))

        def body(time: Any, finished: object, given: Any, outputs: object, state: Any, carried: object) -> Any:
            output, made = cell(given, state)
            nest.assert_same_structure(state, made)
            nest.assert_same_structure(cell.output_size, output)
            following = time + 1
            ends, inputs, wanted, emitted, loop_state = loop_fn(following, output, made, carried)
            nest.assert_same_structure(state, wanted)
            nest.assert_same_structure(given, inputs)
            nest.assert_same_structure(outputs, emitted)
            loop_state = carried if loop_state is None else loop_state
            emitted = _kept(finished, zeros, emitted)
            wanted = _kept(finished, state, wanted)
            for value, shape in zip(nest.flatten(inputs), shapes, strict=True):
                value.set_shape(shape)
            written = nest.map_structure(lambda array, value: array.write(time, value), outputs, emitted)
            return following, tf.logical_or(finished, ends), inputs, written, wanted, loop_state

        _, _, _, outputs, state, carried = tf.while_loop(
            goes_on,
            body,
            [time, finished, inputs, outputs, state, carried],
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
    return outputs, state, carried


def _outputs(output_size: object, state: object, first_output: object, known: int | None, batch: object) -> tuple[Any, Any]:
    """TensorArrays for a cell's outputs, and the zeros that finished sequences output.

    Sizes and types are those of `first_output`; if it is None, the cell's output sizes and the type of its state.
    """
    if first_output is None:
        sizes, types = output_size, nest.map_structure(lambda _: nest.flatten(state)[0].dtype, output_size)
    else:
        sizes = nest.map_structure(lambda value: value.shape, first_output)
        types = nest.map_structure(lambda value: value.dtype, first_output)
    rows = list(zip(nest.flatten(sizes), nest.flatten(types), strict=True))
    arrays = [
        TensorArray(dtype, 0, True, element_shape=[known, *sizes_of(size)], name=f"rnn_output_{i}")
        for i, (size, dtype) in enumerate(rows)
    ]
    zeros = [tf.zeros(joined_sizes(batch, size), dtype) for size, dtype in rows]
    return nest.pack_sequence_as(sizes, arrays), nest.pack_sequence_as(sizes, zeros)


def _kept(finished: object, old: object, new: object) -> Any:
    return nest.map_structure(lambda before, after: kept_where(finished, before, after), old, new)
