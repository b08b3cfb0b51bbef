"""Real Fourier transforms over any axes, and shifts of spectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value, constant_value_as_shape
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

tf = namespace("")

_REAL, _COMPLEX = (dtypes.float32, dtypes.float64), (dtypes.complex64, dtypes.complex128)


def _real(op: str, word: str, rank: int) -> Any:
    def transform(input_tensor: TensorLike, fft_length: TensorLike | None = None, name: str | None = None) -> Any:
        with name_scope(name, word, [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.float32)
            if x.dtype not in _REAL:
                raise ValueError(f"RFFT requires tf.float32 or tf.float64 inputs, got: {x}")
            x.shape.with_rank_at_least(rank)
            length = _own_length(x, rank, False) if fft_length is None else convert_to_tensor(fft_length, dtypes.int32)
            x, length = _padded(x, rank, length, False)
            wide = dtypes.complex64 if x.dtype is dtypes.float32 else dtypes.complex128
            return gen(op)(x, length, Tcomplex=wide, name=scope)

    transform.__name__ = transform.__qualname__ = word
    return transform


def _inverse(op: str, word: str, rank: int) -> Any:
    def transform(input_tensor: TensorLike, fft_length: TensorLike | None = None, name: str | None = None) -> Any:
        with name_scope(name, word, [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
            x.shape.with_rank_at_least(rank)
            if x.dtype not in _COMPLEX:
                raise ValueError(f"IRFFT requires tf.complex64 or tf.complex128 inputs, got: {x}")
            length = _own_length(x, rank, True) if fft_length is None else convert_to_tensor(fft_length, dtypes.int32)
            x, length = _padded(x, rank, length, True)
            return gen(op)(x, length, Treal=x.dtype.real_dtype, name=scope)

    transform.__name__ = transform.__qualname__ = word
    return transform


def _own_length(x: Tensor, rank: int, is_inverse: bool) -> Any:
    """Default length of a transform: sizes of the last dimensions.  For an inverse, the last is the size of the output."""
    known = x.shape[-rank:] if x.shape.rank is not None else None
    if known is not None and known.is_fully_defined():
        sizes = known.as_list()
        if is_inverse:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return convert_to_tensor(sizes, dtypes.int32)
    found = tf.shape(x)[-rank:]
    if is_inverse:
        parts = tf.unstack(found, num=rank)
        parts[-1] = tf.maximum(0, 2 * (parts[-1] - 1))
        found = tf.stack(parts)
    return found


def _padded(x: Any, rank: int, length: Any, is_inverse: bool) -> tuple[Any, Any]:
    """Pad the input to the transform's length if it is shorter.  Returns the input and the length."""
    padded = x if x.shape.rank is not None and 0 in x.shape.as_list() else _padded_to(x, rank, length, is_inverse)
    spelled = constant_value(length)
    return padded, length if spelled is None else convert_to_tensor(spelled, dtypes.int32, name="fft_length")


def _padded_to(x: Any, rank: int, length: Any, is_inverse: bool) -> Any:
    wanted: Any = constant_value_as_shape(length)
    if wanted.is_fully_defined() and x.shape.rank is not None:
        sizes = wanted.as_list()
        known = x.shape[-len(sizes) :]
        if known.is_fully_defined():
            if is_inverse:
                sizes[-1] = sizes[-1] // 2 + 1
            more = [max(size - have, 0) for size, have in zip(sizes, known.as_list(), strict=False)]
            outer = [[0, 0]] * max(x.shape.rank - len(sizes), 0)
            return tf.pad(x, [*outer, *([0, size] for size in more)]) if any(more) else x
    dims = tf.rank(x)
    have = tf.shape(x)[-rank:]
    before = tf.zeros([tf.maximum(0, dims - rank)], dtype=length.dtype)
    if is_inverse:
        length = tf.concat([length[:-1], length[-1:] // 2 + 1], 0)
    margins = tf.concat([before, tf.maximum(0, length - have)], 0)
    return tf.pad(x, tf.stack([tf.zeros_like(margins), margins], axis=1))


rfft, rfft2d, rfft3d = _real("RFFT", "rfft", 1), _real("RFFT2D", "rfft2d", 2), _real("RFFT3D", "rfft3d", 3)
irfft, irfft2d, irfft3d = _inverse("IRFFT", "irfft", 1), _inverse("IRFFT2D", "irfft2d", 2), _inverse("IRFFT3D", "irfft3d", 3)


def _shift(word: str, sign: int) -> Any:
    def shift(x: TensorLike, axes: TensorLike | None = None, name: str | None = None) -> Any:
        with name_scope(name, word) as scope:
            x = convert_to_tensor(x)
            if axes is None:
                if x.shape.rank is None:
                    raise TypeError("'NoneType' object cannot be interpreted as an integer")
                places: Any = tuple(np.arange(x.shape.rank).tolist())
                by = tf.shape(x)
            elif isinstance(axes, int):
                places, by = axes, tf.shape(x)[axes]
            else:
                dims = tf.rank(x)
                places = tf.where(tf.less(axes, 0), axes + dims, axes)
                by = tf.gather(tf.shape(x), places)
            by = by // 2
            return gen("Roll")(x, -by if sign < 0 else by, places, name=scope)

    shift.__name__ = shift.__qualname__ = word
    return shift


fftshift, ifftshift = _shift("fftshift", 1), _shift("ifftshift", -1)
