"""`tf.contrib.seq2seq`: decoders, and the loop that runs a decoder until all sequences have ended."""

from __future__ import annotations

import contextlib
from collections import namedtuple
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.layers.core import Dense
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.rnn.cells import CellLike, cache_variables, check_cell
from placesim.tf1.rnn.dynamic import swapped
from placesim.tf1.rnn.states import joined_sizes, sizes_of
from placesim.tf1.rnn.steps import kept_where
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")


class Decoder:
    """Interface of the decoders of `dynamic_decode`, which users' classes may implement."""

    @property
    def batch_size(self) -> Any:
        """Number of sequences."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """Sizes of a step's outputs."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """The types of the outputs."""
        raise NotImplementedError

    def initialize(self, name: str | None = None) -> Any:
        """Finished flags of the sequences, the first inputs, the first state."""
        raise NotImplementedError

    def step(self, time: object, inputs: TensorLike, state: object, name: str | None = None) -> Any:
        """Outputs, next state, next inputs, and which sequences have ended."""
        raise NotImplementedError

    def finalize(self, outputs: object, final_state: object, sequence_lengths: TensorLike) -> Any:
        """Outputs and state to return, from all outputs and the last state."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether the decoder tracks finished sequences itself, as a decoder that reorders sequences must."""
        return False


class BasicDecoderOutput(namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """Output of a step, and its sampled ids."""

    __slots__ = ()


class BasicDecoder(Decoder):
    """A cell whose inputs come from a helper."""

    def __init__(self, cell: CellLike, helper: Any, initial_state: Any, output_layer: Dense | None = None) -> None:
        check_cell("cell", cell)
        self._cell, self._helper, self._initial_state, self._output_layer = cell, helper, initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        size = self._cell.output_size
        if self._output_layer is not None:
            size = TensorShape([self._output_layer.units])
        return BasicDecoderOutput(rnn_output=size, sample_id=self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        dtype = nest.flatten(self._initial_state)[0].dtype
        types = nest.map_structure(lambda _: dtype, self.output_size.rnn_output)
        return BasicDecoderOutput(types, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        with name_scope(name, "BasicDecoderStep", [time]):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            chosen = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, inputs, state = self._helper.next_inputs(time=time, outputs=outputs, state=state, sample_ids=chosen)
        return BasicDecoderOutput(outputs, chosen), state, inputs, finished


class _Loop:
    """Loop that runs one decoder."""

    def __init__(self, decoder: Any, imputes: bool) -> None:
        self.decoder, self.imputes = decoder, imputes
        self.sizes, self.types = decoder.output_size, decoder.output_dtype
        known = decoder.batch_size
        self.known_batch = None if hasattr(known, "op") else int(known)

    def arrays(self) -> Any:
        """Growing TensorArrays for the outputs."""
        return nest.map_structure(
            lambda size, dtype: TensorArray(
                dtype, 0, dynamic_size=True, element_shape=TensorShape([self.known_batch, *sizes_of(size)])
            ),
            self.sizes,
            self.types,
        )

    def zeros(self) -> Any:
        """Outputs of a finished sequence: zeros."""
        batch = convert_to_tensor(self.decoder.batch_size)
        return nest.map_structure(lambda size, dtype: tf.zeros(joined_sizes(batch, size), dtype), self.sizes, self.types)

    def step(self, zeros: object, time: Tensor, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Tensor) -> Any:
        """All variables of the loop after a step."""
        outputs, after, following, ended = self.decoder.step(time, inputs, state)
        if not self.decoder.tracks_own_finished:
            ended = tf.logical_or(ended, finished)
        lengths = tf.where(tf.logical_not(finished), tf.fill(tf.shape(lengths), time + 1), lengths)
        nest.assert_same_structure(state, after)
        nest.assert_same_structure(arrays, outputs)
        nest.assert_same_structure(inputs, following)
        if self.imputes:
            outputs = nest.map_structure(lambda zero, made: tf.where(finished, zero, made), zeros, outputs)
            after = nest.map_structure(lambda old, new: kept_where(finished, old, new), state, after)
        arrays = nest.map_structure(lambda array, made: array.write(time, made), arrays, outputs)
        return time + 1, arrays, after, following, ended, lengths


def dynamic_decode(
    decoder: object,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: object = None,
    **kwargs: object,
) -> tuple[Any, Any, Any]:
    """Run a decoder until all sequences have ended.  Return outputs, last state, and the lengths of the sequences."""
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with tf.variable_scope(scope, "decoder") as varscope:
        cache_variables(varscope)
        if maximum_iterations is not None:
            maximum_iterations = convert_to_tensor(maximum_iterations, dtype=tf.int32, name="maximum_iterations")
            if maximum_iterations.shape.rank != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        loop = _Loop(decoder, impute_finished)
        zeros = loop.zeros() if impute_finished else None
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, tf.greater_equal(0, maximum_iterations))
        lengths = tf.zeros_like(finished, dtype=tf.int32)
        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: tf.logical_not(tf.reduce_all(finished)),
            lambda *variables: loop.step(zeros, *variables),
            (constant(0, dtype="int32"), loop.arrays(), state, inputs, finished, lengths),
            parallel_iterations=parallel_iterations,
            maximum_iterations=maximum_iterations,
            swap_memory=swap_memory,
        )
        outputs = nest.map_structure(lambda array: array.stack(), arrays)
        with contextlib.suppress(NotImplementedError):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = nest.map_structure(swapped, outputs)
    return outputs, state, lengths


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """Weighted cross entropy of `logits [batch, time, classes]`.  Raises ValueError for other ranks."""
    for what, value, rank, words in (
        ("Logits", logits, 3, "[batch_size x sequence_length x logits]"),
        ("Targets", targets, 2, "[batch_size x sequence_length]"),
        ("Weights", weights, 2, "[batch_size x sequence_length]"),
    ):
        if len(value.shape) != rank:
            raise ValueError(f"{what} must be a {words} tensor")
    with name_scope(name, "sequence_loss", [logits, targets, weights]):
        classes = tf.shape(logits)[2]
        flat, labels = tf.reshape(logits, [-1, classes]), tf.reshape(targets, [-1])
        if softmax_loss_function is None:
            crossed = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=flat)
        else:
            crossed = softmax_loss_function(labels=labels, logits=flat)
        crossed *= tf.reshape(weights, [-1])
        # All weights may be zero.
        if average_across_timesteps and average_across_batch:
            return tf.div_no_nan(tf.reduce_sum(crossed), tf.reduce_sum(weights))
        crossed = tf.reshape(crossed, tf.shape(logits)[0:2])
        if average_across_timesteps:
            return tf.div_no_nan(tf.reduce_sum(crossed, axis=1), tf.reduce_sum(weights, axis=1))
        if average_across_batch:
            return tf.div_no_nan(tf.reduce_sum(crossed, axis=0), tf.reduce_sum(weights, axis=0))
        return crossed


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeat each entry of a batch `multiplier` times in a row."""
    with name_scope(name, "tile_batch", [*nest.flatten(t), multiplier]):
        return nest.map_structure(lambda part: _tiled(part, multiplier), t)


def _tiled(value: TensorLike, multiplier: int) -> Any:
    value = convert_to_tensor(value, name="t")
    if value.shape.rank is None:
        raise ValueError("t must have statically known rank")
    shape = tf.shape(value)
    tiled = tf.tile(tf.expand_dims(value, 1), [1, multiplier] + [1] * (value.shape.rank - 1))
    tiled = tf.reshape(tiled, tf.concat(([shape[0] * multiplier], shape[1:]), 0))
    batch, *rest = value.shape.as_list()
    tiled.set_shape([None if batch is None else batch * multiplier, *rest])
    return tiled
