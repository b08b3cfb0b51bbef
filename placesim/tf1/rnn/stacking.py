"""`tf.contrib.rnn`: stacked bidirectional networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.rnn.dynamic import bidirectional_dynamic_rnn
from placesim.tf1.rnn.static import static_bidirectional_rnn

tf = namespace("")


def _layers(cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Cells and initial states of each layer.  Raises ValueError unless they are lists of the same length."""
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not cells:
            raise ValueError(f"Must specify at least one {name[-2:]} cell for BidirectionalRNN.")
        if not isinstance(cells, list):
            raise ValueError(f"{name} must be a list of RNNCells (one per layer).")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
    for name, states, cells in (("fw", states_fw, cells_fw), ("bw", states_bw, cells_bw)):
        if states is not None and (not isinstance(states, list) or len(states) != len(cells)):
            raise ValueError(f"initial_states_{name} must be a list of state tensors (one per layer).")
    none = [None] * len(cells_fw)
    return zip(cells_fw, cells_bw, states_fw or none, states_bw or none, strict=True)


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Sequence[Any],
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: DTypeLike | None = None,
    sequence_length: TensorLike | None = None,
    scope: object = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Stacked bidirectional layers over a list of inputs.  Each layer reads both directions of the layer below."""
    layers = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    found: Any = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (cell_fw, cell_bw, state_fw, state_bw) in enumerate(layers):
            with tf.variable_scope(f"cell_{i}") as way:
                found, fw, bw = static_bidirectional_rnn(
                    cell_fw, cell_bw, found, state_fw, state_bw, dtype, sequence_length, way
                )
            states_fw.append(fw)
            states_bw.append(bw)
    return found, tuple(states_fw), tuple(states_bw)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: TensorLike,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: DTypeLike | None = None,
    sequence_length: TensorLike | None = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: object = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Stacked bidirectional layers over a tensor.  Each layer reads both directions of the layer below."""
    layers = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    found = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (cell_fw, cell_bw, state_fw, state_bw) in enumerate(layers):
            with tf.variable_scope(f"cell_{i}"):
                outputs, (fw, bw) = bidirectional_dynamic_rnn(
                    cell_fw,
                    cell_bw,
                    found,
                    sequence_length,
                    state_fw,
                    state_bw,
                    dtype=dtype,
                    parallel_iterations=parallel_iterations,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                found = tf.concat(outputs, 2)
            states_fw.append(fw)
            states_bw.append(bw)
    return found, tuple(states_fw), tuple(states_bw)
