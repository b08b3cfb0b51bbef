"""`tf.contrib.legacy_seq2seq`: sequence-to-sequence models over lists of inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.rnn.cells import CellLike
from placesim.tf1.rnn.contrib_wrappers import EmbeddingWrapper, OutputProjectionWrapper
from placesim.tf1.rnn.static import static_rnn
from placesim.tf1.types import nest

tf = namespace("")

Loop = Callable[[Any, int], Any]
"""Function from the previous output and a step's number to the input of that step."""


def rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: object,
    cell: CellLike,
    loop_function: Loop | None = None,
    scope: object = None,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs.  A loop function makes all inputs but the first from the previous output."""
    with tf.variable_scope(scope or "rnn_decoder"):
        state, outputs, previous = initial_state, [], None
        for i, given in enumerate(decoder_inputs):
            if loop_function is not None and previous is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    given = loop_function(previous, i)
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
            if loop_function is not None:
                previous = output
    return outputs, state


def next_embedding(embedding: object, projection: tuple[Any, Any] | None, updates: bool) -> Loop:
    """Loop function that returns the embedding of the previous output's most likely symbol."""

    def loop(previous: object, _: int) -> Any:
        if projection is not None:
            previous = tf.nn.xw_plus_b(previous, projection[0], projection[1])
        found = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return found if updates else tf.stop_gradient(found)

    return loop


def check_projection(projection: Any, size: int, symbols: int) -> None:
    """Raise ValueError unless weights and biases project outputs of `size` to `symbols`."""
    if projection is None:
        return
    weights, biases = (tf.convert_to_tensor(part, dtype=tf.float32) for part in projection)
    weights.shape.assert_is_compatible_with([size, symbols])
    biases.shape.assert_is_compatible_with([symbols])


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: CellLike,
    dtype: DTypeLike | None = None,
    scope: object = None,
) -> tuple[list[Any], Any]:
    """Encoder, and decoder that begins with the encoder's last state."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype or tf.float32)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: CellLike,
    loop_function: Loop | None = None,
    dtype: DTypeLike | None = None,
    scope: object = None,
) -> tuple[list[Any], Any]:
    """`basic_rnn_seq2seq` whose encoder and decoder share their variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype or tf.float32, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope=scope)


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: object,
    cell: CellLike,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: object = None,
) -> tuple[list[Any], Any]:
    """`rnn_decoder` whose inputs are symbols."""
    with tf.variable_scope(scope or "embedding_rnn_decoder") as scope:
        check_projection(output_projection, cell.output_size, num_symbols)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = next_embedding(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        embedded = [tf.nn.embedding_lookup(embedding, symbols) for symbols in decoder_inputs]
        return rnn_decoder(embedded, initial_state, cell, loop)


def fed_or_given(feed_previous: object, decoder: Callable[[bool], tuple[list[Any], Any]]) -> tuple[list[Any], Any]:
    """Results of `decoder(feed_previous)`.  If `feed_previous` is a tensor, a `cond` selects one of two decoders."""
    if isinstance(feed_previous, bool):
        return decoder(feed_previous)
    structure: list[Any] = []

    def branch(feeds: bool, reuse: bool | None) -> list[Any]:
        with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
            outputs, state = decoder(feeds)
        structure[:] = [outputs, state]
        return list(outputs) + nest.flatten(state)

    flat = tf.cond(feed_previous, lambda: branch(True, None), lambda: branch(False, True))
    count = len(structure[0])
    return list(flat[:count]), nest.pack_sequence_as(structure[1], list(flat[count:]))


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: CellLike,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: object = None,
    feed_previous: object = False,
    dtype: DTypeLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Encoder and decoder of symbols; the decoder begins with the encoder's last state."""
    with tf.variable_scope(scope or "embedding_rnn_seq2seq") as scope:
        if dtype is not None:
            scope.set_dtype(dtype)
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=dtype or tf.float32)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        return fed_or_given(
            feed_previous,
            lambda feeds: embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size, output_projection, feeds
            ),
        )


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: CellLike,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Any = None,
    feed_previous: object = False,
    dtype: DTypeLike | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """`embedding_rnn_seq2seq` whose encoder and decoder share cell and embedding."""
    check_projection(output_projection, cell.output_size, num_symbols)
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as scope:
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=scope.dtype)
        encoded = [tf.nn.embedding_lookup(embedding, symbols) for symbols in encoder_inputs]
        decoded = [tf.nn.embedding_lookup(embedding, symbols) for symbols in decoder_inputs]
        symbols = num_symbols if num_decoder_symbols is None else num_decoder_symbols
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, symbols)

        def decoder(feeds: bool) -> tuple[list[Any], Any]:
            loop = next_embedding(embedding, output_projection, True) if feeds else None
            return tied_rnn_seq2seq(encoded, decoded, cell, loop, dtype)

        return fed_or_given(feed_previous, decoder)
