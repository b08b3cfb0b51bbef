"""`tf.summary`: ops that make Summary messages, and that merge them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.distribute.contexts import skip_summary
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen

_NOT_IN_TAGS = re.compile(r"[^-/\w\.]")


@contextmanager
def _scope(name: str, family: str | None, values: TensorLike) -> Iterator[tuple[str, str]]:
    """Open the name scope of a summary.  Yields its tag and the scope, both with the family as prefix."""
    if name is not None:
        name = _NOT_IN_TAGS.sub("_", name).lstrip("/")
    if family is not None:
        family = _NOT_IN_TAGS.sub("_", family).lstrip("/")
    with tf.name_scope(name if family is None else f"{family}/{name}", values=values) as scope:
        own = scope.rstrip("/")
        yield (own if family is None else f"{family}/{own}"), scope


def _collect(summary: Tensor, collections: Any) -> Tensor:
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        tf.add_to_collection(key, summary)
    return summary


def scalar(name: str, tensor: TensorLike, collections: Sequence[str] | None = None, family: str | None = None) -> Tensor:
    """A Summary of one number."""
    if skip_summary():
        return constant("")
    with _scope(name, family, [tensor]) as (tag, scope):
        return _collect(gen("ScalarSummary")(tags=tag, values=tensor, name=scope), collections)


def histogram(name: str, values: TensorLike, collections: Sequence[str] | None = None, family: str | None = None) -> Tensor:
    """A Summary of the distribution of values."""
    if skip_summary():
        return constant("")
    with _scope(name, family, [values]) as (tag, scope):
        return _collect(gen("HistogramSummary")(tag=tag, values=values, name=scope), collections)


def image(
    name: str, tensor: TensorLike, max_outputs: int = 3, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """A Summary of images, of the shape [batch, height, width, channels]."""
    if skip_summary():
        return constant("")
    with _scope(name, family, [tensor]) as (tag, scope):
        return _collect(gen("ImageSummary")(tag=tag, tensor=tensor, max_images=max_outputs, name=scope), collections)


def audio(
    name: str,
    tensor: TensorLike,
    sample_rate: object,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """A Summary of sounds, of the shape [batch, frames] or [batch, frames, channels]; `sample_rate` in hertz."""
    if skip_summary():
        return constant("")
    with _scope(name, family, [tensor]) as (tag, scope):
        rate = tf.convert_to_tensor(sample_rate, dtype=tf.float32, name="sample_rate")
        made = gen("AudioSummaryV2")(tag=tag, tensor=tensor, max_outputs=max_outputs, sample_rate=rate, name=scope)
        return _collect(made, collections)


def text(name: Any, tensor: Any, collections: Sequence[str] | None = None) -> Tensor:
    """A Summary of strings.  Raises ValueError for another type."""
    if tensor.dtype != tf.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    metadata = message_class("SummaryMetadata")(plugin_data={"plugin_name": "text"})
    return tensor_summary(name, tensor, summary_metadata=metadata, collections=collections)


def tensor_summary(
    name: str,
    tensor: TensorLike,
    summary_description: Any = None,
    collections: Sequence[str] | None = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """A Summary of a whole tensor."""
    metadata = message_class("SummaryMetadata")() if summary_metadata is None else summary_metadata
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = summary_description
    if skip_summary():
        return constant("")
    with _scope(name, family, [tensor]) as (tag, scope):
        made = gen("TensorSummaryV2")(
            tensor=tensor, tag=tag, name=scope, serialized_summary_metadata=metadata.SerializeToString()
        )
        return _collect(made, collections)


def merge(inputs: TensorLike, collections: object = None, name: str | None = None) -> Tensor:
    """Merge several Summaries into one."""
    with tf.name_scope(name, "Merge", inputs):
        made = gen("MergeSummary")(inputs=inputs, name=name)
        return _collect(made, [] if collections is None else collections)


def merge_all(key: object = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """Merge a collection's summaries; None if it is empty."""
    found = tf.get_collection(key, scope=scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def: Any) -> Any:
    """Description in a TensorSummary node. Raises ValueError for another node."""
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    import json

    found = message_class("SummaryDescription")()
    found.type_hint = json.loads(node_def.attr["description"].s).get("typeHint", "")
    return found
