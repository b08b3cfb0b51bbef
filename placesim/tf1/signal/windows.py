"""Window functions, which weight frames of a signal."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.types import dtypes

tf = namespace("")


def _cosine(word: str, middle: float, swing: float) -> Any:
    """Make a window function: one period of a cosine."""

    def window(
        window_length: TensorLike, periodic: TensorLike = True, dtype: DTypeLike = dtypes.float32, name: str | None = None
    ) -> Any:
        if not dtypes.as_dtype(dtype).is_floating:
            raise ValueError(f"dtype must be a floating point type. Found {dtype}")
        with name_scope(name, word, [window_length, periodic]):
            length = convert_to_tensor(window_length, dtypes.int32, name="window_length")
            length.shape.assert_has_rank(0)
            known = constant_value(length)
            if known is not None and known == 1:
                return tf.ones([1], dtype=dtype)
            repeats = tf.cast(convert_to_tensor(periodic, dtypes.bool_, name="periodic"), dtypes.int32)
            is_even = 1 - length % 2
            period = tf.cast(length + repeats * is_even - 1, dtype)
            places = tf.cast(tf.range(length), dtype)
            angles = constant(2 * np.pi, dtype) * places / period
            if known is None:
                return tf.cond(
                    tf.equal(length, 1),
                    lambda: tf.ones([length], dtype=dtype),
                    lambda: middle - swing * tf.cos(angles),
                )
            return middle - swing * tf.cos(angles)

    window.__name__ = window.__qualname__ = word
    return window


hann_window, hamming_window = _cosine("hann_window", 0.5, 0.5), _cosine("hamming_window", 0.54, 0.46)


def vorbis_window(window_length: TensorLike, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Any:
    """`tf.signal.vorbis_window`."""
    with name_scope(name, "vorbis_window"):
        length = convert_to_tensor(window_length, dtypes.int32)
        length.shape.assert_has_rank(0)
        places = tf.cast(tf.range(0, length), dtype)
        wave = tf.sin(pi / tf.cast(length, dtype) * (places + 0.5))
        return tf.sin(pi / 2.0 * tf.pow(wave, 2.0))
