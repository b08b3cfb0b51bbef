"""`tf.contrib.seq2seq`: beam search, a decoder that follows several likely sequences of each input."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.rnn.cells import CellLike, check_cell
from placesim.tf1.rnn.decoder_inputs import embedding_function, start_and_end
from placesim.tf1.rnn.decoding import Decoder
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")

BeamSearchDecoderState = namedtuple("BeamSearchDecoderState", ("cell_state", "log_probs", "finished", "lengths"))
BeamSearchDecoderOutput = namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))
FinalBeamSearchDecoderOutput = namedtuple("FinalBeamSearchDecoderOutput", ("predicted_ids", "beam_search_decoder_output"))


def gather_tree(step_ids: TensorLike, parent_ids: TensorLike, max_sequence_lengths: object, end_token: object) -> Any:
    """Sequences `[time, batch, beam]` that end in each beam, filled with `end_token` after its first occurrence."""
    step_ids, parent_ids = convert_to_tensor(step_ids), convert_to_tensor(parent_ids)
    with name_scope(None, "GatherTree", [step_ids, parent_ids]):
        steps, batch, beams = (tf.shape(step_ids)[axis] for axis in range(3))
        lengths = tf.minimum(tf.convert_to_tensor(max_sequence_lengths), steps)
        array = TensorArray(step_ids.dtype, size=steps, element_shape=TensorShape(step_ids.shape.as_list()[1:]))
        own = tf.tile(tf.expand_dims(tf.range(beams), 0), tf.stack([batch, 1]))

        def back(time: Tensor, array: TensorArray, beam: object) -> Any:
            is_inside = tf.tile(tf.expand_dims(time < lengths, 1), tf.stack([1, beams]))
            found = tf.where(is_inside, _picked(step_ids[time], beam), tf.fill(tf.stack([batch, beams]), end_token))
            following = tf.where(is_inside, _picked(parent_ids[time], beam), beam)
            found.set_shape(step_ids.shape[1:])
            following.set_shape(own.shape)
            return time - 1, array.write(time, found), following

        _, array, _ = tf.while_loop(lambda time, *_: time >= 0, back, (steps - 1, array, own), back_prop=False)
        sequences = array.stack()
        ended = tf.cumsum(tf.cast(tf.equal(sequences, end_token), tf.int32), axis=0, exclusive=True) > 0
        return tf.where(ended, tf.fill(tf.shape(sequences), end_token), sequences)


def _picked(values: TensorLike, beams: object) -> Any:
    """Entries of the given beams in each row of `values [batch, beam, ...]`."""
    batch, width = tf.shape(beams)[0], tf.shape(beams)[1]
    rows = tf.tile(tf.expand_dims(tf.range(batch), 1), tf.stack([1, width]))
    return tf.gather_nd(values, tf.stack([rows, tf.cast(beams, tf.int32)], axis=-1))


class BeamSearchDecoder(Decoder):
    """Decoder that follows `beam_width` sequences for each start token; the cell's batch contains all of them."""

    def __init__(
        self,
        cell: CellLike,
        embedding: Any,
        start_tokens: TensorLike,
        end_token: TensorLike,
        initial_state: Any,
        beam_width: int,
        output_layer: Callable[[Any], Any] | None = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        check_cell("cell", cell)
        if coverage_penalty_weight:
            raise not_there("contrib.seq2seq.BeamSearchDecoder with coverage_penalty_weight", "without it, it is there")
        self._cell, self._output_layer, self._beams = cell, output_layer, beam_width
        self._penalty = length_penalty_weight
        self._embed = embedding_function(embedding)
        self._start_tokens, self._end_token = start_and_end(start_tokens, end_token)
        self._batch = tf.size(self._start_tokens)
        self._initial_state = nest.map_structure(self._split, initial_state, cell.state_size)

    # --- reshaping between [batch * beams, ...] and [batch, beams, ...] ---

    def _split(self, value: Tensor, size: TensorLike | None = None) -> Any:
        """`value [batch * beams, ...]` as [batch, beams, ...]; TensorArrays and scalars stay as they are."""
        if isinstance(value, TensorArray) or value.shape.rank == 0:
            return value
        rest = value.shape.as_list()[1:]
        found = tf.reshape(value, tf.concat([tf.stack([self._batch, self._beams]), tf.shape(value)[1:]], 0))
        found.set_shape([None, self._beams, *rest])
        return found

    def _merge(self, value: Tensor) -> Any:
        if isinstance(value, TensorArray) or value.shape.rank == 0:
            return value
        rest = value.shape.as_list()[2:]
        found = tf.reshape(value, tf.concat([tf.stack([self._batch * self._beams]), tf.shape(value)[2:]], 0))
        found.set_shape([None, *rest])
        return found

    # --- the interface of Decoder ---

    @property
    def batch_size(self) -> Any:
        return self._batch

    @property
    def tracks_own_finished(self) -> bool:
        return True

    @property
    def output_size(self) -> Any:
        size = TensorShape([self._beams])
        return BeamSearchDecoderOutput(size, size, size)

    @property
    def output_dtype(self) -> Any:
        return BeamSearchDecoderOutput(nest.flatten(self._initial_state)[0].dtype, tf.int32, tf.int32)

    def initialize(self, name: str | None = None) -> Any:
        dtype = nest.flatten(self._initial_state)[0].dtype
        finished = tf.one_hot(tf.zeros([self._batch], tf.int32), self._beams, on_value=False, off_value=True, dtype=tf.bool)
        # All beams are equal at first, so only one of them gets a probability.
        chances = tf.one_hot(tf.zeros([self._batch], tf.int32), self._beams, on_value=0.0, off_value=float("-inf"), dtype=dtype)
        lengths = tf.zeros(tf.stack([self._batch, self._beams]), dtype=tf.int64)
        lengths.set_shape([None, self._beams])
        state = BeamSearchDecoderState(self._initial_state, chances, finished, lengths)
        return finished, self._embed(self._first_tokens()), state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        with name_scope(name, "BeamSearchDecoderStep", [time]):
            given = nest.map_structure(self._merge, inputs)
            outputs, after = self._cell(given, nest.map_structure(self._merge, state.cell_state))
            logits = self._split(outputs if self._output_layer is None else self._output_layer(outputs))
            output, state = self._best(time, logits, state, nest.map_structure(self._split, after))
            following = tf.cond(
                tf.reduce_all(state.finished),
                lambda: self._embed(self._first_tokens()),
                lambda: self._embed(output.predicted_ids),
            )
        return output, state, following, state.finished

    def _first_tokens(self) -> Any:
        return tf.tile(tf.expand_dims(self._start_tokens, 1), [1, self._beams])

    def _best(self, time: object, logits: Tensor, state: Any, cell_state: object) -> Any:
        """Output and state of the most likely continuations of all beams."""
        symbols = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        chances = self._continued(tf.nn.log_softmax(logits), state.finished, symbols)
        total = tf.expand_dims(state.log_probs, 2) + chances
        is_end = tf.one_hot(self._end_token, symbols, on_value=0, off_value=1, dtype=tf.int64)
        grows = tf.cast(tf.logical_not(state.finished), tf.int64)
        lengths = tf.expand_dims(state.lengths, 2) + tf.expand_dims(grows, 2) * is_end
        scores = tf.reshape(self._scored(total, lengths), tf.stack([self._batch, self._beams * symbols]))
        best, places = tf.nn.top_k(scores, k=self._beams)
        parents, words = places // symbols, places % symbols
        best.set_shape([None, self._beams])
        finished = tf.logical_or(_picked(state.finished, parents), tf.equal(words, self._end_token))
        lengths = _picked(state.lengths, parents) + tf.cast(tf.logical_not(finished), tf.int64)
        chosen = _picked(tf.reshape(total, tf.stack([self._batch, self._beams * symbols])), places)
        following = nest.map_structure(lambda value: self._reordered(value, parents), cell_state)
        after = BeamSearchDecoderState(following, chosen, finished, lengths)
        for value in after[1:]:
            value.set_shape([None, self._beams])
        return BeamSearchDecoderOutput(best, words, parents), after

    def _continued(self, chances: Tensor, finished: object, symbols: Any) -> Any:
        """Log probabilities of the next symbols; a finished sequence continues only with the end token."""
        mask = tf.tile(tf.expand_dims(finished, 2), tf.stack([1, 1, symbols]))
        lowest = chances.dtype.min
        ended = tf.one_hot(self._end_token, symbols, on_value=0.0, off_value=lowest, dtype=chances.dtype)
        return tf.where(mask, tf.zeros_like(chances) + ended, chances)

    def _scored(self, chances: Tensor, lengths: TensorLike) -> Any:
        """Log probabilities divided by the length penalty, which compensates longer sequences."""
        if not self._penalty:
            return chances
        return chances / tf.pow((5.0 + tf.cast(lengths, chances.dtype)) / 6.0, self._penalty)

    def _reordered(self, value: Tensor, parents: object) -> Any:
        if isinstance(value, TensorArray) or value.shape.rank == 0:
            return value
        found = _picked(value, parents)
        found.set_shape(value.shape)
        return found

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: TensorLike) -> Any:
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32) + 1
        found = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        return FinalBeamSearchDecoderOutput(found, outputs), final_state
