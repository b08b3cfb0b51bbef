"""`tf.keras.backend.rnn`: a function applied to each step of sequences, in a loop or unrolled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.types import nest

Step = Callable[[Any, Any], tuple[Any, Any]]


def swapped(value: Any) -> Any:
    """The tensor with its first two dimensions, batch and time, swapped."""
    return tf.transpose(value, [1, 0, *range(2, value.shape.rank)])


def rnn(
    step_function: Step,
    inputs: Any,
    initial_states: Sequence[Any],
    go_backwards: bool = False,
    mask: Any = None,
    constants: Sequence[Any] | None = None,
    unroll: bool = False,
    input_length: object = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Apply `step_function` to each step of `inputs [batch, time, ...]`.  Return the last output, all outputs, the last states.

    Steps whose mask is false keep their states.  Raises ValueError for unrolling an unknown number of steps.
    """
    if not time_major:
        inputs = nest.map_structure(swapped, inputs)
    count = tf.shape(nest.flatten(inputs)[0])[0]
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        mask = tf.expand_dims(mask, -1) if mask.shape.rank == 2 else mask
        mask = mask if time_major else swapped(mask)
    fixed = tuple(constants or ())

    def step(values: Any, states: Any) -> tuple[Any, Any]:
        return step_function(values, tuple(states) + fixed)

    loop = _Loop(step, inputs, tuple(initial_states), go_backwards, mask, zero_output_for_mask)
    last, outputs, states = loop.unrolled() if unroll else loop.run(count)
    steps, batch = nest.flatten(inputs)[0].shape.as_list()[:2]
    for output in nest.flatten(outputs):
        output.set_shape([steps, batch, *output.shape.as_list()[2:]])
    return last, outputs if time_major else nest.map_structure(swapped, outputs), states


def _spread(mask: Any, value: Any, fixed: int = 1) -> Any:
    """The mask repeated to the shape of a value; the first `fixed` dimensions are already there."""
    for _ in range(value.shape.rank - mask.shape.rank):
        mask = tf.expand_dims(mask, -1)
    return tf.tile(mask, [1] * fixed + value.shape.as_list()[fixed:])


def _where_each(mask: Any, values: Any, others: Any, fixed: int = 1) -> list[Any]:
    """Each value where the mask holds, else the other value."""
    spread = [_spread(mask, value, fixed) for value in values]
    return [tf.where_v2(*parts) for parts in zip(spread, values, others, strict=True)]


class _Loop(NamedTuple):
    """A step function, its inputs with the time first, and how it is applied."""

    step: Step
    inputs: Any
    states: tuple[Any, ...]
    go_backwards: bool
    mask: Any
    zero_output_for_mask: bool

    def unrolled(self) -> tuple[Any, Any, Any]:
        """Last output, all outputs and last states of steps one after another.  Raises ValueError for unknown steps."""
        flat, order, states = nest.flatten(self.inputs), -1 if self.go_backwards else 1, self.states
        if not flat[0].shape.as_list()[0]:
            raise ValueError("Unrolling requires a fixed number of timesteps.")
        steps = [tf.unstack(value)[::order] for value in flat]
        masks = None if self.mask is None else tf.unstack(self.mask)[::order]
        outputs: list[Any] = []
        for i, values in enumerate(zip(*steps, strict=True)):
            output, new = self.step(nest.pack_sequence_as(self.inputs, list(values)), states)
            if masks is not None:
                spread = _spread(masks[i], output)
                output = tf.where_v2(spread, output, outputs[-1] if outputs else tf.zeros_like(output))
                new = nest.pack_sequence_as(states, _where_each(masks[i], nest.flatten(new), nest.flatten(states)))
            outputs.append(output)
            states = new
        last, stacked = outputs[-1], tf.stack(outputs)
        if masks is not None and self.zero_output_for_mask:
            last = tf.where_v2(_spread(masks[-1], last), last, tf.zeros_like(last))
            stacked = tf.where_v2(_spread(self.mask, stacked, 2), stacked, tf.zeros_like(stacked))
        return last, stacked, states

    def run(self, count: Any) -> tuple[Any, Any, Any]:
        """The same results from a loop of `count` steps."""
        flat = nest.flatten(self.inputs)
        arrays = [self._array(count, f"input_ta_{i}", value) for i, value in enumerate(flat)]
        read_from = [array.unstack(self._in_step_order(value)) for array, value in zip(arrays, flat, strict=True)]
        # the output of the first step tells types and shapes
        first, _ = self.step(nest.pack_sequence_as(self.inputs, [value[0] for value in flat]), self.states)
        written = tuple(
            self._array(count, f"output_ta_{i}", value, element_shape=value.shape)
            for i, value in enumerate(nest.flatten(first))
        )
        time = tf.constant(0, dtype="int32", name="time")
        zeros, mask_array = (), None
        if self.mask is not None:
            mask = self._in_step_order(self.mask)
            mask_array = self._array(count, "mask_ta", mask).unstack(mask)
            zeros = tuple(map(tf.zeros_like, nest.flatten(first)))

        def body(time: Any, arrays: Any, *carried: Any) -> tuple[Any, ...]:
            values = nest.pack_sequence_as(self.inputs, [array.read(time) for array in read_from])
            # with a mask, the outputs of the step before precede the states
            before, *states = carried if mask_array is not None else (None, *carried)
            here = None if mask_array is None else mask_array.read(time)
            output, new = self.step(values, states)
            outputs, flat_new, flat_states = nest.flatten(output), nest.flatten(new), nest.flatten(states)
            if here is not None:
                masked = zeros if self.zero_output_for_mask else before
                outputs = _where_each(here, outputs, masked, here.shape.rank)
            for value, state in zip(flat_new, flat_states, strict=True):
                value.set_shape(state.shape)
            if here is not None:
                flat_new = _where_each(here, flat_new, flat_states, here.shape.rank)
            arrays = tuple(array.write(time, value) for array, value in zip(arrays, outputs, strict=True))
            kept = () if here is None else (tuple(outputs),)
            return time + 1, arrays, *kept, *nest.pack_sequence_as(self.states, flat_new)

        carried = self.states if mask_array is None else (zeros, *self.states)
        _, arrays, *rest = tf.while_loop(
            lambda time, *_: time < count, body, (time, written, *carried), parallel_iterations=32, swap_memory=True
        )
        stacked = [array.stack() for array in arrays]
        lasts = [value[-1] for value in stacked]
        states = tuple(rest[len(carried) - len(self.states) :])
        return nest.pack_sequence_as(first, lasts), nest.pack_sequence_as(first, stacked), states

    def _array(self, count: Any, name: str, value: Any, **kwargs: Any) -> Any:
        return tf.TensorArray(value.dtype, size=count, tensor_array_name=name, **kwargs)

    def _in_step_order(self, value: Any) -> Any:
        return tf.reverse(value, [0]) if self.go_backwards else value
