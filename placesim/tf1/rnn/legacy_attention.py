"""`tf.contrib.legacy_seq2seq`: decoders with attention over encoder outputs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.rnn.cells import CellLike
from placesim.tf1.rnn.contrib_cells import linear
from placesim.tf1.rnn.contrib_wrappers import EmbeddingWrapper, OutputProjectionWrapper
from placesim.tf1.rnn.legacy_seq2seq import Loop, check_projection, fed_or_given, next_embedding
from placesim.tf1.rnn.static import static_rnn
from placesim.tf1.types import nest

tf = namespace("")


class _Heads:
    """Attention to the states of an encoder, [batch, length, size], by one or more heads."""

    def __init__(self, states: Any, num_heads: int) -> None:
        length, size = states.shape.as_list()[1:]
        self.length, self.size = (tf.shape(states)[1] if length is None else length), size
        self.hidden = tf.reshape(states, [-1, self.length, 1, size])
        self.features, self.vectors = [], []
        for head in range(num_heads):
            weights = tf.get_variable(f"AttnW_{head}", [1, 1, size, size], dtype=states.dtype)
            self.features.append(tf.nn.conv2d(self.hidden, weights, [1, 1, 1, 1], "SAME"))
            self.vectors.append(tf.get_variable(f"AttnV_{head}", [size], dtype=states.dtype))

    def attend(self, query: Any) -> list[Any]:
        """For each head, the sum of the encoder's states, weighted by how well they match the query."""
        if nest.is_nested(query):
            query = tf.concat(nest.flatten(query), 1)
        found = []
        for head, (features, vector) in enumerate(zip(self.features, self.vectors, strict=True)):
            with tf.variable_scope(f"Attention_{head}"):
                y = tf.reshape(linear(query, self.size, True), [-1, 1, 1, self.size])
                scores = tf.nn.softmax(tf.reduce_sum(vector * tf.tanh(features + y), [2, 3]))
                summed = tf.reduce_sum(tf.reshape(scores, [-1, self.length, 1, 1]) * self.hidden, [1, 2])
                found.append(tf.reshape(summed, [-1, self.size]))
        return found


def _check_attention(decoder_inputs: Sequence[Any], attention_states: Tensor, num_heads: int) -> None:
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape.as_list()[2] is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: object,
    attention_states: Tensor,
    cell: CellLike,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: Loop | None = None,
    dtype: DTypeLike | None = None,
    scope: object = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs, with attention to an encoder's states at each step.  Raises ValueError."""
    _check_attention(decoder_inputs, attention_states, num_heads)
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        dtype = opened.dtype
        heads = _Heads(attention_states, num_heads)
        state, outputs, previous = initial_state, [], None
        batch = tf.shape(decoder_inputs[0])[0]
        attended = [tf.zeros(tf.stack([batch, heads.size]), dtype=dtype) for _ in range(num_heads)]
        for part in attended:
            part.set_shape([None, heads.size])
        if initial_state_attention:
            attended = heads.attend(initial_state)
        for i, given in enumerate(decoder_inputs):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(previous, i)
            width = given.shape.with_rank(2).as_list()[1]
            if width is None:
                raise ValueError(f"Could not infer input size from input: {given.name}")
            output, state = cell(linear([given, *attended], width, True), state)
            if i == 0 and initial_state_attention:
                with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                    attended = heads.attend(state)
            else:
                attended = heads.attend(state)
            with tf.variable_scope("AttnOutputProjection"):
                output = linear([output, *attended], output_size, True)
            if loop_function is not None:
                previous = output
            outputs.append(output)
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: object,
    attention_states: Tensor,
    cell: CellLike,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: DTypeLike | None = None,
    scope: object = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """`attention_decoder` whose inputs are symbols."""
    output_size = cell.output_size if output_size is None else output_size
    check_projection(output_projection, output_size, num_symbols)
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = next_embedding(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        return attention_decoder(
            [tf.nn.embedding_lookup(embedding, symbols) for symbols in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size=output_size,
            num_heads=num_heads,
            loop_function=loop,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: CellLike,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: object = None,
    feed_previous: object = False,
    dtype: DTypeLike | None = None,
    scope: object = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Encoder and decoder of symbols, with attention to the encoder's outputs."""
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        encoded, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        states = tf.concat([tf.reshape(output, [-1, 1, cell.output_size]) for output in encoded], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols
        return fed_or_given(
            feed_previous,
            lambda feeds: embedding_attention_decoder(
                decoder_inputs,
                state,
                states,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=output_size,
                output_projection=output_projection,
                feed_previous=feeds,
                initial_state_attention=initial_state_attention,
            ),
        )
