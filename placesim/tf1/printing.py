"""Texts with tensors in them: `tf.print` and `tf.strings.format`."""

from __future__ import annotations

import pprint
import sys
from typing import Any

from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import nest

_LEVELS = ("info", "warning", "error")


class _Hole:
    """Placeholder for one tensor or several in the text of a structure."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def print(*inputs: object, **kwargs: Any) -> Operation:
    """`tf.print`: an op that prints texts and structures of tensors, by default to standard error."""
    stream = _stream_name(kwargs.pop("output_stream", sys.stderr))
    name = kwargs.pop("name", None)
    summarize = kwargs.pop("summarize", 3)
    separator, end = kwargs.pop("sep", " "), kwargs.pop("end", "\n")
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    if len(inputs) == 1 and isinstance(inputs[0], Tensor) and inputs[0].dtype.name == "string" and inputs[0].shape.rank == 0:
        text = inputs[0]
    else:
        tensors: list[Any] = []
        hole = "{}"
        while any(hole in item for item in nest.flatten(inputs) if isinstance(item, str)):
            hole = f"{{{hole}}}"
        parts = [item if isinstance(item, str) else _template(item, hole, tensors) for item in inputs]
        text = format(separator.join(parts), tensors, hole, summarize, name and f"{name}_format")
    found: Operation = gen("PrintV2")(text, output_stream=stream, end=end, name=name)
    return found


def _template(item: object, hole: str, tensors: list[Any]) -> str:
    """The text of a structure, with the placeholder `hole` for each tensor.  The tensors are appended to `tensors`."""
    flat: list[Any] = []
    for leaf in nest.flatten(item):
        if isinstance(leaf, SparseTensor):
            tensors += [leaf.indices, leaf.values, leaf.dense_shape]
            flat.append(_Hole(f"'SparseTensor(indices={hole}, values={hole}, shape={hole})'"))
        elif isinstance(leaf, Tensor) or hasattr(leaf, "_as_graph_element"):
            tensors.append(leaf)
            flat.append(_Hole(hole))
        else:
            flat.append(leaf)
    found = nest.pack_sequence_as(item, flat) if nest.is_nested(item) else flat[0]
    return pprint.pformat(found) if not isinstance(found, str) else found


def _stream_name(stream: object) -> str:
    """Name of a stream in the op. Raises ValueError."""
    if stream is sys.stdout:
        return "stdout"
    if stream is sys.stderr:
        return "stderr"
    if isinstance(stream, str) and stream.startswith("file://"):
        return stream
    from placesim.tf1.app import logging as app_logging

    for level in (*_LEVELS, "warn"):
        if stream is getattr(app_logging, level):
            return f"log({'warning' if level == 'warn' else level})"
    raise ValueError(
        f"Unsupported output stream, logging level, or file.{stream}. Supported streams are sys.stdout, sys.stderr, "
        "tf.logging.info, tf.logging.warning, tf.logging.error. File needs to be in the form of 'file://<filepath>'."
    )


def format(template: str, inputs: TensorLike, placeholder: str = "{}", summarize: int = 3, name: str | None = None) -> Any:
    """`tf.strings.format`: a template with tensors in it.  Raises ValueError for a wrong number of placeholders."""
    tensors = [inputs] if isinstance(inputs, Tensor) or not isinstance(inputs, list | tuple) else list(inputs)
    if template.count(placeholder) != len(tensors):
        raise ValueError(
            f"The template expects {template.count(placeholder)} tensors, but the inputs only has {len(tensors)}. Please "
            f"ensure the number of placeholders in template matches inputs length."
        )
    return gen("StringFormat")(tensors, template=template, placeholder=placeholder, summarize=summarize, name=name)
