"""`tf.contrib.rnn`: networks of several layers in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.rnn.dynamic import bidirectional_dynamic_rnn
from placesim.tf1.rnn.static import static_bidirectional_rnn

tf = namespace("")


def _checked_layers(cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any) -> int:
    """Number of layers. Raises ValueError unless cells and states are lists of that length."""
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
    return len(cells_fw)


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
    """Stacked bidirectional layers over a list of inputs, each reading both directions of the one below."""
    layers = _checked_layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    found: Any = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i in range(layers):
            with tf.variable_scope(f"cell_{i}") as way:
                found, fw, bw = static_bidirectional_rnn(
                    cells_fw[i],
                    cells_bw[i],
                    found,
                    None if initial_states_fw is None else initial_states_fw[i],
                    None if initial_states_bw is None else initial_states_bw[i],
                    dtype,
                    sequence_length,
                    way,
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
    """Stacked bidirectional layers over a tensor, each reading both directions of the one below."""
    layers = _checked_layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    found = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i in range(layers):
            with tf.variable_scope(f"cell_{i}"):
                outputs, (fw, bw) = bidirectional_dynamic_rnn(
                    cells_fw[i],
                    cells_bw[i],
                    found,
                    sequence_length=sequence_length,
                    initial_state_fw=None if initial_states_fw is None else initial_states_fw[i],
                    initial_state_bw=None if initial_states_bw is None else initial_states_bw[i],
                    dtype=dtype,
                    parallel_iterations=parallel_iterations,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                found = tf.concat(outputs, 2)
            states_fw.append(fw)
            states_bw.append(bw)
    return found, tuple(states_fw), tuple(states_bw)
