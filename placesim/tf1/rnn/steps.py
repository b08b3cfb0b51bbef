"""One step of a cell over sequences of different lengths: finished sequences keep their state and output zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.types import nest

tf = namespace("")

Call = Callable[[], tuple[Any, Any]]


def kept_where(ended: object, old: Tensor, new: Tensor) -> Any:
    """The old value for sequences that have ended, else the new value.  For a TensorArray or scalar, always the new value."""
    if isinstance(old, TensorArray) or new.shape.rank == 0:
        return new
    with tf.colocate_with(new):
        return tf.where(ended, old, new)


class Lengths:
    """Lengths of a batch of sequences, with the shortest and the longest length."""

    def __init__(self, lengths: TensorLike) -> None:
        self.lengths = lengths
        self.shortest = tf.reduce_min(lengths)
        self.longest = tf.reduce_max(lengths)

    def step(self, time: Any, zeros: object, state: object, call: Call, skips_conditionals: bool) -> tuple[Any, Any]:
        """Output and state after a step.  With `skips_conditionals` the cell runs even after all sequences have ended."""
        ended = time >= self.lengths
        before, empty = nest.flatten(state), nest.flatten(zeros)
        structure: list[Any] = []

        def run() -> list[Any]:
            output, after = call()
            nest.assert_same_structure(zeros, output)
            nest.assert_same_structure(state, after)
            structure[:] = [output, after]
            return nest.flatten(output) + nest.flatten(after)

        def choose(new: Sequence[Any]) -> list[Any]:
            return [kept_where(ended, old, made) for old, made in zip(empty + before, new, strict=True)]

        def run_or_copy() -> list[Any]:
            new = run()
            return as_list(tf.cond(time < self.shortest, lambda: new, lambda: choose(new)))

        if skips_conditionals:
            found = choose(run())
        else:
            found = as_list(tf.cond(time >= self.longest, lambda: empty + before, run_or_copy))
        outputs, states = found[: len(empty)], found[len(empty) :]
        for made, old in zip(found, empty + before, strict=True):
            if not isinstance(made, TensorArray):
                made.set_shape(old.shape)
        return nest.pack_sequence_as(zeros, outputs), nest.pack_sequence_as(state, states)
