"""Frames of a signal, and short-time Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.signal.windows import hann_window
from placesim.tf1.types import dtypes

tf = namespace("")

Window = Callable[..., Any]


def frame(
    signal: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    pad_end: bool = False,
    pad_value: TensorLike = 0,
    axis: TensorLike = -1,
    name: str | None = None,
) -> Tensor:
    """`tf.signal.frame`: replaces dimension `axis` by two, frames and their samples."""
    with name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        samples = convert_to_tensor(signal, name="signal")
        length = _scalar(frame_length, "frame_length")
        step = _scalar(frame_step, "frame_step")
        position = _scalar(axis, "axis")
        samples.shape.with_rank_at_least(1)
        shape = _frames_shape(samples, length, step, pad_end, position)
        found: Tensor = _framed(samples, length, step, _known(position), pad_value if pad_end else None)
        found.set_shape(shape)
        return found


def _scalar(value: TensorLike, name: str) -> Tensor:
    found = convert_to_tensor(value, name=name)
    found.shape.assert_has_rank(0)
    return found


def _known(tensor: Tensor) -> Any:
    """The value of a tensor if it is known while the graph is built, else the tensor."""
    found = constant_value(tensor)
    return tensor if found is None else found


def _frames_shape(signal: Tensor, length: Tensor, step: Tensor, pad_end: bool, axis: Tensor) -> Any:
    """Static shape of the frames, as far as it is known."""
    place = constant_value(axis)
    if signal.shape.rank is None or place is None:
        return None
    sizes = signal.shape.as_list()
    place = int(place) % len(sizes)
    size: Any = sizes[place]
    known_length, known_step = constant_value(length), constant_value(step)
    count = None
    if None not in (size, known_length, known_step):
        count = -(-size // known_step) if pad_end else max(0, 1 + (size - known_length) // known_step)
    return [*sizes[:place], count, known_length, *sizes[place + 1 :]]


def _framed(signal: Any, length: Tensor, step: Tensor, axis: Any, padding: TensorLike | None) -> Any:
    """Cut a signal into pieces that divide both the length and the step of frames, and gather the pieces of each frame."""
    shape = _known(tf.shape(signal))
    samples: Any
    outer: Any
    inner: Any
    if isinstance(shape, np.ndarray) and not isinstance(axis, Tensor):
        axis = range(len(shape))[axis]
        outer, samples, inner = np.split(shape, [axis, axis + 1])
        samples = samples.item()
    else:
        rank = tf.rank(signal)
        axis = tf.range(rank)[axis]
        outer, samples, inner = tf.split(shape, [axis, 1, rank - 1 - axis])
        samples = tf.reshape(samples, [])
    outer_rank, inner_rank = tf.size(outer), tf.size(inner)
    if padding is None:
        count = tf.maximum(constant(0, length.dtype), 1 + (samples - length) // step)
    else:
        padding = convert_to_tensor(padding, signal.dtype)
        count = -(-samples // step)
        missing = tf.maximum(0, length + step * (count - 1) - samples)
        before, here = tf.zeros([outer_rank, 2], missing.dtype), convert_to_tensor([[0, missing]])
        paddings = tf.concat([before, here, tf.zeros([inner_rank, 2], missing.dtype)], 0)
        signal = tf.pad(signal, paddings, constant_values=padding)
        shape = tf.shape(signal)
        samples = shape[axis]
    piece = _known(_common_divisor(length, step))
    per_frame, per_step, pieces = length // piece, step // piece, samples // piece
    whole = tf.concat([outer, [pieces * piece], inner], 0)
    cut = tf.concat([outer, [pieces, piece], inner], 0)
    parts = tf.reshape(tf.strided_slice(signal, tf.zeros_like(shape), whole), cut)
    first = tf.reshape(tf.range(count) * per_step, [count, 1])
    chosen = first + tf.reshape(tf.range(per_frame), [1, per_frame])
    outer, inner = convert_to_tensor(outer), convert_to_tensor(inner)
    sizes = convert_to_tensor([count, length])
    return tf.reshape(tf.gather(parts, chosen, axis=axis), tf.concat([outer, sizes, inner], 0))


def _common_divisor(a: Tensor, b: Tensor) -> Tensor:
    """Greatest common divisor of two scalars; if they are not known, a loop computes it."""
    with name_scope(None, "gcd", [a, b]):
        known = constant_value(a), constant_value(b)
        if None not in known:
            return constant(math.gcd(*map(int, known)))
        found: list[Tensor] = tf.while_loop(
            lambda _, other: tf.greater(other, tf.zeros_like(other)),
            lambda one, other: [other, one % other],
            [a, b],
            back_prop=False,
        )
        return found[0]


def overlap_and_add(signal: TensorLike, frame_step: TensorLike, name: str | None = None) -> Tensor:
    """`tf.signal.overlap_and_add`: the signal whose frames overlap, from the last two dimensions."""
    with name_scope(name, "overlap_and_add", [signal, frame_step]):
        found: Any = convert_to_tensor(signal, name="signal")
        found.shape.with_rank_at_least(2)
        step: Any = _scalar(frame_step, "frame_step")
        if not step.dtype.is_integer:
            raise ValueError(f"frame_step must be an integer. Got {step.dtype}")
        shape = _known(tf.shape(found))
        outer = shape[:-2]
        rank = _known(tf.size(outer))
        length, frames = shape[-1], shape[-2]
        step = _known(step)
        samples = length + step * (frames - 1)
        segments = -(-length // step)
        edges = [[0, segments], [0, segments * step - length]]
        found = tf.pad(found, tf.concat([tf.zeros([rank, 2], dtypes.int32), edges], 0))
        found = tf.reshape(found, tf.concat([outer, [frames + segments, segments, step]], 0))
        order = tf.concat([tf.range(rank), rank + np.array([1, 0, 2], np.int32)], 0)
        found = tf.transpose(found, _known(order))
        found = tf.reshape(found, tf.concat([outer, [(frames + segments) * segments, step]], 0))
        found = found[..., : (frames + segments - 1) * segments, :]
        found = tf.reshape(found, tf.concat([outer, [segments, frames + segments - 1, step]], 0))
        found = tf.reduce_sum(found, -3)
        found = tf.reshape(found, tf.concat([outer, [(frames + segments - 1) * step]], 0))
        return found[..., :samples]  # type: ignore[no-any-return]


def _transform_length(frame_length: Tensor, fft_length: TensorLike | None) -> Tensor:
    """Given length of a transform; else the smallest power of 2 that is not below the length of a frame."""
    if fft_length is not None:
        return convert_to_tensor(fft_length, name="fft_length")
    known = constant_value(frame_length)
    if known is not None:
        return constant(int(2 ** np.ceil(np.log(known) / np.log(2.0))), frame_length.dtype)
    power = tf.ceil(tf.log(tf.cast(frame_length, dtypes.float32)) / tf.log(2.0))
    found: Tensor = tf.cast(tf.pow(2.0, power), frame_length.dtype)
    return found


def stft(
    signals: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    fft_length: TensorLike | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """`tf.signal.stft`: spectra of the frames of signals."""
    with name_scope(name, "stft", [signals, frame_length, frame_step]):
        given = convert_to_tensor(signals, name="signals")
        given.shape.with_rank_at_least(1)
        length, step = _scalar(frame_length, "frame_length"), _scalar(frame_step, "frame_step")
        transform = _transform_length(length, fft_length)
        frames = frame(given, length, step, pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        found: Tensor = tf.signal.rfft(frames, [transform])
        return found


def inverse_stft(
    stfts: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    fft_length: TensorLike | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """`tf.signal.inverse_stft`: signals whose frames have the given spectra."""
    with name_scope(name, "inverse_stft", [stfts]):
        spectra = convert_to_tensor(stfts, name="stfts")
        spectra.shape.with_rank_at_least(2)
        length, step = _scalar(frame_length, "frame_length"), _scalar(frame_step, "frame_step")
        frames = _of_length(tf.signal.irfft(spectra, [_transform_length(length, fft_length)]), length)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=spectra.dtype.real_dtype)
        return overlap_and_add(frames, step)


def _of_length(frames: Any, length: Tensor) -> Any:
    """Cut or pad the last dimension."""
    known, size = constant_value(length), None if frames.shape.rank is None else frames.shape.as_list()[-1]
    if known is None or size is None:
        frames = frames[..., :length]
        rank, shape = tf.rank(frames), tf.shape(frames)
        missing = [[0, tf.maximum(0, length - shape[-1])]]
        frames = tf.pad(frames, tf.concat([tf.zeros([rank - 1, 2], length.dtype), missing], 0))
    elif size > known:
        frames = frames[..., :known]
    elif size < known:
        frames = tf.pad(frames, [*[[0, 0]] * (frames.shape.rank - 1), [0, known - size]])
    if known is not None and frames.shape.rank is not None:
        frames.set_shape([*[None] * (frames.shape.rank - 1), known])
    return frames


def inverse_stft_window_fn(
    frame_step: TensorLike, forward_window_fn: Window = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """`tf.signal.inverse_stft_window_fn`: the window with which `inverse_stft` undoes an `stft` that used the other window."""

    def window(frame_length: TensorLike, dtype: Any) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
            step, length = _scalar(frame_step, "frame_step"), _scalar(frame_length, "frame_length")
            forward = forward_window_fn(length, dtype=dtype)
            sums = tf.square(forward)
            overlaps = -(-length // step)
            sums = tf.pad(sums, [(0, overlaps * step - length)])
            sums = tf.reduce_sum(tf.reshape(sums, [overlaps, step]), 0, keepdims=True)
            sums = tf.reshape(tf.tile(sums, [overlaps, 1]), [overlaps * step])
            sums = sums[:length]
            found: Tensor = tf.where(tf.equal(sums, 0), tf.zeros_like(sums), forward / sums)
            return found

    return window
