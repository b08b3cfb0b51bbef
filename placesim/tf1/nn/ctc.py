"""Connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from placesim.tf1.array.shaping import size_along
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.nn.ctc_dense import ctc_loss_dense
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes

tf = namespace("")


def ctc_loss(
    labels: TensorLike,
    inputs: TensorLike | None = None,
    sequence_length: TensorLike | None = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: TensorLike | None = None,
) -> Any:
    """`tf.nn.ctc_loss`."""
    if not isinstance(labels, SparseTensor):
        kind = type(labels).__name__
        raise TypeError(f"Expected argument `labels` to be a SparseTensor. Received labels={labels} of type: {kind}")
    found: Any = tf.convert_to_tensor(inputs if logits is None else logits, name="logits")
    if not time_major:
        found = tf.transpose(found, [1, 0, 2])
    dtype = found.dtype
    is_half = dtypes.is_half(dtype)
    if is_half:
        found = tf.cast(found, tf.float32)
    loss, _ = gen("CTCLoss")(
        found,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    return tf.cast(loss, dtype) if is_half else loss


def ctc_greedy_decoder(
    inputs: TensorLike, sequence_length: TensorLike, merge_repeated: bool = True, blank_index: int | None = None
) -> Any:
    """`tf.nn.ctc_greedy_decoder`."""
    found = gen("CTCGreedyDecoder")(
        inputs, sequence_length, merge_repeated=merge_repeated, blank_index=-1 if blank_index is None else blank_index
    )
    return [SparseTensor(*found[:3])], found[3]


def ctc_beam_search_decoder(
    inputs: TensorLike, sequence_length: TensorLike, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> Any:
    """`tf.nn.ctc_beam_search_decoder`."""
    indices, values, shapes, probabilities = gen("CTCBeamSearchDecoder")(
        inputs, sequence_length, beam_width=beam_width, top_paths=top_paths, merge_repeated=merge_repeated
    )
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes, strict=True)], probabilities


def ctc_beam_search_decoder_v2(
    inputs: TensorLike, sequence_length: TensorLike, beam_width: int = 100, top_paths: int = 1
) -> Any:
    """`tf.nn.ctc_beam_search_decoder_v2`."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def ctc_loss_v2(
    labels: TensorLike,
    logits: TensorLike,
    label_length: TensorLike,
    logit_length: TensorLike,
    logits_time_major: bool = True,
    unique: object = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Any:
    """`tf.nn.ctc_loss_v2`.  Raises ValueError for sparse labels without `blank_index`, NotImplementedError for `unique`."""
    if not isinstance(labels, SparseTensor):
        if unique:
            raise not_there("nn.ctc_loss_v2 with unique", "without it it is")
        return ctc_loss_dense(labels, logits, label_length, logit_length, logits_time_major, blank_index or 0, name)
    if blank_index is None:
        raise ValueError("Argument `blank_index` must be provided when labels is a SparseTensor.")
    classes = logits.shape.as_list()[2]
    if blank_index < 0:
        blank_index += classes
    if blank_index != classes - 1:
        # In the op, the blank is the last class.
        parts = [logits[:, :, :blank_index], logits[:, :, blank_index + 1 :], logits[:, :, blank_index : blank_index + 1]]
        logits = tf.concat(parts, axis=2)
        numbers: Any = labels.values
        numbers = tf.where(numbers < blank_index, numbers, numbers - 1)
        labels = SparseTensor(labels.indices, numbers, labels.dense_shape)
    return ctc_loss(labels, logits, logit_length, time_major=logits_time_major)


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Any, Any]:
    """Labels without repetitions, and the remaining length of each sequence."""
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = tf.convert_to_tensor(labels, name="labels")
        seq_length = tf.convert_to_tensor(seq_length, name="seq_length")
        first = tf.ones_like(labels[:, :1], dtype=tf.bool)
        differs = tf.concat([first, tf.not_equal(labels[:, 1:], labels[:, :-1])], axis=1)
        kept = tf.logical_and(differs, tf.sequence_mask(seq_length, maxlen=size_along(labels, 1)))
        counts = tf.reduce_sum(tf.cast(kept, tf.int32), axis=1)
        width = tf.reduce_max(counts)
        places = tf.sequence_mask(counts, maxlen=width)
        flat, kept_flat, places_flat = (tf.reshape(part, [-1]) for part in (labels, kept, places))
        numbers = tf.boolean_mask(tf.range(size_along(places_flat, 0)), places_flat)
        found = tf.scatter_nd(
            indices=tf.expand_dims(numbers, axis=1),
            updates=tf.boolean_mask(flat, kept_flat),
            shape=tf.shape(places_flat),
        )
        return tf.reshape(found, [size_along(labels, 0), width]), tf.cast(counts, seq_length.dtype)
