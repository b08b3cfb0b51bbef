"""`tf.contrib.layers`' summaries: of tensors by their names, and of whole collections."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Tensor

_ACTIVATIONS = ("Relu", "Softplus", "Relu6")


def summarize_tensor(tensor: Tensor, tag: str | None = None) -> Any:
    """Scalar summary of a number, or histogram of a tensor."""
    make = tf.summary.scalar if tensor.get_shape().ndims == 0 else tf.summary.histogram
    return make(tag or f"{tensor.op.name}_summary", tensor)


def summarize_activation(op: Tensor) -> Any:
    """Histogram of a layer's output, with summaries of its fractions of zeros and, for Relu6, of sixes."""
    if op.op.type in _ACTIVATIONS:
        share = tf.reduce_mean(tf.to_float(tf.less(op.op.inputs[0], tf.cast(0.0, op.op.inputs[0].dtype))))
        tf.summary.scalar(f"{op.op.name}/zeros", share)
    if op.op.type == "Relu6":
        share = tf.reduce_mean(tf.to_float(tf.greater(op.op.inputs[0], tf.cast(6.0, op.op.inputs[0].dtype))))
        tf.summary.scalar(f"{op.op.name}/sixes", share)
    return tf.summary.histogram(f"{op.op.name}/activation", op)


def summarize_tensors(tensors: Iterable[Any], summarizer: Callable[[Any], Any] = summarize_tensor) -> list[Any]:
    """A summary of each tensor."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Summary of each tensor of a collection with a matching name."""
    tensors = [one for one in tf.get_collection(collection) if name_filter is None or re.match(name_filter, one.op.name)]
    return summarize_tensors(tensors, summarizer)


summarize_variables = functools.partial(summarize_collection, GraphKeys.GLOBAL_VARIABLES)
summarize_weights = functools.partial(summarize_collection, GraphKeys.WEIGHTS)
summarize_biases = functools.partial(summarize_collection, GraphKeys.BIASES)


def summarize_activations(name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_activation) -> list[Any]:
    """A summary of each layer's output in the collection of activations."""
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)
