"""Discrete cosine transforms, computed by Fourier transforms."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.signal.fourier import irfft, rfft

tf = namespace("")

_INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}


def _check(type: int, n: Any, axis: int, norm: object) -> None:
    """Raise ValueError or NotImplementedError like TensorFlow."""
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if type not in _INVERSES:
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")


def dct(input: Any, type: int = 2, n: Any = None, axis: int = -1, norm: object = None, name: str | None = None) -> Any:
    """`tf.signal.dct`: along the last axis."""
    _check(type, n, axis, norm)
    with name_scope(name, "dct"):
        input = convert_to_tensor(input)
        zero = tf.constant(0.0, dtype=input.dtype)
        own = input.shape.as_list()[-1] if input.shape.rank is not None else None
        size: Any = own if own is not None else tf.shape(input)[-1]
        if n is not None:
            input = _of_length(input, own, n)
        own = input.shape.as_list()[-1] if input.shape.rank is not None else None
        size = own if own is not None else tf.shape(input)[-1]
        wide = tf.cast(size, input.dtype)
        if type == 1:
            both = tf.concat([input, input[..., -2:0:-1]], axis=-1)
            return tf.real(rfft(both))
        if type == 2:
            return _second(input, size, wide, zero, norm)
        if type == 3:
            return _third(input, size, wide, zero, norm)
        return _fourth(input, size, wide, norm)


def _of_length(input: Any, own: Any, n: int) -> Any:
    """Cut the last dimension to size n, or pad it with zeros."""
    if own is None:
        raise NotImplementedError("tf.signal.dct(n=...) of a last dimension that is not known is not there; set its shape")
    if n <= own:
        return input[..., 0:n]
    return tf.pad(input, tf.constant([[0, 0]] * (input.shape.rank - 1) + [[0, n - own]]))


def _second(input: TensorLike, size: Any, wide: object, zero: object, norm: object) -> Any:
    turns = 2.0 * tf.exp(tf.complex(zero, -tf.range(wide) * pi * 0.5 / wide))
    found = tf.real(rfft(input, fft_length=[2 * size])[..., :size] * turns)
    if norm == "ortho":
        first = 0.5 * tf.rsqrt(wide)
        others = first * sqrt(2.0)
        weights = tf.pad(tf.expand_dims(first, 0), [[0, size - 1]], constant_values=others)
        found *= weights
    return found


def _third(input: TensorLike, size: Any, wide: Any, zero: Any, norm: object) -> Any:
    if norm == "ortho":
        first = tf.sqrt(wide)
        others = first * sqrt(0.5)
        input *= tf.pad(tf.expand_dims(first, 0), [[0, size - 1]], constant_values=others)
    else:
        input *= wide
    turns = 2.0 * tf.exp(tf.complex(zero, tf.range(wide) * pi * 0.5 / wide))
    return irfft(turns * tf.complex(input, zero), fft_length=[2 * size])[..., :size]


def _fourth(input: TensorLike, size: Any, wide: object, norm: object) -> Any:
    """Type IV: every other element of the type II transform of a signal twice as long."""
    doubled = dct(input, type=2, n=2 * size)
    found = doubled[..., 1::2]
    if norm == "ortho":
        found *= sqrt(0.5) * tf.rsqrt(wide)
    return found


def idct(
    input: TensorLike, type: int = 2, n: object = None, axis: int = -1, norm: object = None, name: str | None = None
) -> Any:
    """`tf.signal.idct`: along the last axis."""
    _check(type, n, axis, norm)
    return dct(input, type=_INVERSES[type], n=n, axis=axis, norm=norm, name=name)
