"""Connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from placesim.tf1.generated import gen
from placesim.tf1.namespaces import namespace
from placesim.tf1.sparse_values import SparseTensor

tf: Any = namespace("")


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Any:
    """`tf.nn.ctc_loss`."""
    if not isinstance(labels, SparseTensor):
        kind = type(labels).__name__
        raise TypeError(f"Expected argument `labels` to be a SparseTensor. Received labels={labels} of type: {kind}")
    found = inputs if logits is None else logits
    if not time_major:
        found = tf.transpose(found, [1, 0, 2])
    loss, _ = gen("CTCLoss")(
        found,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    return loss


def ctc_greedy_decoder(inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None) -> Any:
    """`tf.nn.ctc_greedy_decoder`."""
    found = gen("CTCGreedyDecoder")(
        inputs, sequence_length, merge_repeated=merge_repeated, blank_index=-1 if blank_index is None else blank_index
    )
    return [SparseTensor(*found[:3])], found[3]


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> Any:
    """`tf.nn.ctc_beam_search_decoder`."""
    indices, values, shapes, probabilities = gen("CTCBeamSearchDecoder")(
        inputs, sequence_length, beam_width=beam_width, top_paths=top_paths, merge_repeated=merge_repeated
    )
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes, strict=True)], probabilities


def ctc_beam_search_decoder_v2(inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1) -> Any:
    """`tf.nn.ctc_beam_search_decoder_v2`."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)
