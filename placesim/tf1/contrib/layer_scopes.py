"""Variable scope of a layer of `tf.contrib.layers`: its variables are model variables with contrib's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.outputs import collect_named_outputs, get_variable_collections
from placesim.tf1.contrib.variables import model_variable
from placesim.tf1.graphs.tensor_likes import TensorLike


def layer_scope(
    scope: object, default: str, inputs: TensorLike, reuse: object, renamed: Mapping[str, str] | None = None
) -> Any:
    """Variable scope around a layer of `tf.layers`.  `renamed`: name of a variable in that layer -> its name in contrib."""
    return tf.variable_scope(scope, default, [inputs], reuse=reuse, custom_getter=_model_getter(renamed or {}))


def _model_getter(renamed: Mapping[str, str]) -> Callable[..., Any]:
    def getter(getter: Callable[..., Any], name: str, **settings: object) -> Any:
        above, slash, last = name.rpartition("/")
        for unused in ("reuse", "validate_shape", "constraint"):
            settings.pop(unused, None)
        return model_variable(above + slash + renamed.get(last, last), custom_getter=getter, **settings)

    return getter


def finished(
    outputs: Any,
    normalizer_fn: Any,
    normalizer_params: Any,
    activation_fn: Callable[[Any], Any] | None,
    outputs_collections: object,
    name: str,
) -> Any:
    """Last part of a layer: normalize, activate and collect its output."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, name, outputs)


def parameter(
    name: str,
    shape: Any,
    dtype: Any,
    initializer: object,
    collections: object,
    trainable: bool,
    regularizer: object = None,
    kind: str | None = None,
) -> Any:
    """Model variable of a layer, which is also added to the collections of its `kind` (default: its name)."""
    return model_variable(
        name,
        shape=shape if isinstance(shape, (list, tuple, tf.TensorShape)) else [shape],
        dtype=dtype.base_dtype,
        initializer=initializer,
        regularizer=regularizer,
        collections=get_variable_collections(collections, kind or name),
        trainable=trainable,
    )
