"""Summaries for TensorBoard, as serialised `Summary` messages.

Source: TensorFlow's `summary.proto` and `histogram.proto`, its summary kernels, `histogram.cc` (the buckets), `wav_io.cc`.
An image is encoded as a PNG without filters: the same image as TensorFlow's, but in other bytes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.core.protobuf_wire import WireError, field_values, fixed_field, message_field, number_field
from placesim.core.tensor_fields import serialise_tensor
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.png_files import png_file
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import scalar
from placesim.ops.kernels.string_tensors import flat_strings, string_array

VALUE = 1
"""Field number of the values of `Summary`."""
TAG, SIMPLE, IMAGE, HISTOGRAM, AUDIO, NODE, TENSOR, METADATA = 1, 2, 4, 5, 6, 7, 8, 9
"""Fields of `Summary.Value`."""


def _summary(values: Sequence[bytes]) -> Sequence[Tensor]:
    return (string_array([b"".join(message_field(VALUE, value) for value in values)], ()),)


def _tag_field(tag: bytes) -> bytes:
    return message_field(TAG, tag) if tag else b""


def _float_field(number: int, value: float) -> bytes:
    return fixed_field(number, struct.pack("<f", value))


def _double_field(number: int, value: float) -> bytes:
    """The field of a double; empty for zero, the default."""
    content = struct.pack("<d", value)
    return fixed_field(number, content) if any(content) else b""


# --- numbers --------------------------------------------------------------------------------------------------------


def summarize_scalars(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """(tags, values) of equal shapes -> a summary with a value for each tag, a scalar string like all summaries.

    Raises InvalidArgumentError if the shapes differ.
    """
    tags = flat_strings(inputs[0])
    if np.shape(inputs[0]) != np.shape(inputs[1]):
        hint = f" (tag '{tags[0].decode(errors='replace')}')" if len(tags) == 1 else ""
        raise InvalidArgumentError(
            f"tags and values are not the same shape: {shape_text(inputs[0])} != {shape_text(inputs[1])}{hint}"
        )
    numbers = np.asarray(inputs[1]).astype(np.float32).reshape(-1)
    rows = zip(tags, numbers, strict=True)
    return _summary([_tag_field(tag) + _float_field(SIMPLE, float(number)) for tag, number in rows])


@lru_cache(maxsize=1)
def bucket_limits() -> Tensor:
    """The upper limits of the buckets, in increasing order; their absolute values grow by a tenth from limit to limit."""
    limits = [1.0e-12]
    while limits[-1] * 1.1 < 1.0e20:
        limits.append(limits[-1] * 1.1)
    limits.append(sys.float_info.max)
    return np.array([*(-limit for limit in reversed(limits)), 0.0, *limits])


def histogram_message(values: Tensor) -> bytes:
    """Float64 values as a `HistogramProto`, in which a run of empty buckets is one bucket."""
    limits = bucket_limits()
    places = np.minimum(np.searchsorted(limits, values, side="right"), len(limits) - 1)
    counts = np.bincount(places, minlength=len(limits)).astype(np.float64)
    # an empty bucket is left out if the next bucket is empty too
    kept = [at for at, (count, following) in enumerate(pairwise([*counts, 1.0])) if count or following]
    least, most = (values.min(), values.max()) if values.size else (limits[-1], -limits[-1])
    # TensorFlow adds value after value; `cumsum` has the same rounding
    sums = [float(np.cumsum(terms)[-1]) if values.size else 0.0 for terms in (values, values * values)]
    head = (min(least, limits[-1]), max(most, -limits[-1]), float(values.size), *sums)
    packed = b"".join(message_field(field, column[kept].tobytes()) for field, column in ((6, limits), (7, counts)))
    return b"".join(_double_field(field, number) for field, number in enumerate(head, 1)) + packed


def summarize_histogram(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """(a scalar tag, values) -> a summary with their histogram.

    Raises InvalidArgumentError for a tag that is not a scalar and for a value that is not finite.
    """
    if np.ndim(inputs[0]):
        raise InvalidArgumentError("tags must be scalar")
    values = np.asarray(inputs[1]).astype(np.float64).reshape(-1)
    wrong = values[~np.isfinite(values)]
    if wrong.size:
        what = "Nan" if np.isnan(wrong[0]) else "Infinity"
        raise InvalidArgumentError(f"{what} in summary histogram for: {context.node}")
    return _summary([_tag_field(flat_strings(inputs[0])[0]) + message_field(HISTOGRAM, histogram_message(values))])


# --- tensors --------------------------------------------------------------------------------------------------------


def summarize_tensor(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """tensor -> a summary with the tensor under the node's name."""
    data = serialise_tensor(np.asarray(inputs[0], attrs["T"].numpy), attrs["T"])
    return _summary([message_field(NODE, context.node.encode()) + message_field(TENSOR, data)])


def summarize_tagged_tensor(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """(tag, tensor, serialized `SummaryMetadata`) -> a summary with the tensor under the tag.

    Raises InvalidArgumentError for a tag or metadata that are not scalars.
    """
    for value, name in ((inputs[0], "tag"), (inputs[2], "serialized_summary_metadata")):
        if np.ndim(value):
            raise InvalidArgumentError(f"{name} must be scalar")
    tag, metadata = flat_strings(inputs[0])[0], flat_strings(inputs[2])[0]
    data = serialise_tensor(np.asarray(inputs[1], attrs["T"].numpy), attrs["T"])
    return _summary([_tag_field(tag) + message_field(TENSOR, data) + message_field(METADATA, metadata)])


def merge_summaries(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Strings of any shapes -> a summary with all values. Raises InvalidArgumentError for invalid strings and repeated tags."""
    values: list[bytes] = []
    tags: set[bytes] = set()
    for text in (text for value in inputs for text in flat_strings(value)):
        for value, tag in _tagged_values(text):
            if tag and tag in tags:
                raise InvalidArgumentError(f"Duplicate tag {tag.decode(errors='replace')} found in summary inputs")
            tags.add(tag)
            values.append(value)
    return _summary(values)


def _tagged_values(summary: bytes) -> list[tuple[bytes, bytes]]:
    try:
        values = [value for field, value in field_values(summary) if field == VALUE and isinstance(value, bytes)]
        return [(value, b"".join(_tag_of(value)[-1:])) for value in values]
    except WireError:
        raise InvalidArgumentError("Could not parse one of the summary inputs") from None


def _tag_of(value: bytes) -> list[bytes]:
    return [part for field, part in field_values(value) if field == TAG and isinstance(part, bytes)]


# --- audio and images -----------------------------------------------------------------------------------------------


def _numbered(tag: bytes, kind: str, index: int, limit: int) -> bytes:
    # TensorFlow numbers the values if there may be several, even if there is only one
    return tag + f"/{kind}/{index}".encode() if limit > 1 else tag + f"/{kind}".encode()


def summarize_audio(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """(tag, sounds, rate) -> a summary with the first `max_outputs` sounds as WAV files.

    Sounds are float32 `[batch, frames, channels]` or `[batch, frames]`. Raises InvalidArgumentError for a tag that is not a
    scalar, another rank, a rate that is not a single positive number, and the errors of `wav_file`.
    """
    if np.ndim(inputs[0]):
        raise InvalidArgumentError("Tag must be a scalar")
    sounds = np.asarray(inputs[1], np.float32)
    if sounds.ndim not in (2, 3):
        raise InvalidArgumentError(f"Tensor must be 3-D or 2-D, got: {shape_text(sounds)}")
    if "sample_rate" not in attrs and np.size(inputs[2]) != 1:
        raise InvalidArgumentError("sample_rate must be rank-0 or contain a single value")
    rate = np.float32(attrs["sample_rate"] if "sample_rate" in attrs else np.asarray(inputs[2]).reshape(-1)[0])
    if not rate > 0:  # rejects a NaN too
        raise InvalidArgumentError("sample_rate must be > 0")
    tag, limit = flat_strings(inputs[0])[0], attrs["max_outputs"]
    # numpy cannot infer an axis of a tensor without elements
    frames = (
        sounds.reshape(*sounds.shape[:2], -1) if sounds.size else sounds.reshape(*sounds.shape[:2], *sounds.shape[2:] or (1,))
    )
    values = []
    for index, sound in enumerate(frames[:limit]):
        data = _float_field(1, float(rate)) + number_field(2, sound.shape[1]) + number_field(3, len(sound))
        data += message_field(4, wav_file(sound, int(np.rint(rate)) or 1)) + message_field(5, b"audio/wav")
        values.append(message_field(TAG, _numbered(tag, "audio", index, limit)) + message_field(AUDIO, data))
    return _summary(values)


def wav_file(sound: Tensor, rate: int) -> bytes:
    """Float32 `[frames, channels]` in [-1, 1] as a 16-bit WAV file.

    Raises InvalidArgumentError for 0 channels, 2**16 or more channels, and for a rate that is not a positive 32-bit number.
    """
    if not 0 < rate < 1 << 32:
        raise InvalidArgumentError(f"sample_rate must be in (0, 2^32), got: {rate}")
    channels = sound.shape[1]
    if not 0 < channels < 1 << 16:
        raise InvalidArgumentError(f"num_channels must be in (0, 2^16), got: {channels}")
    scaled = sound * np.float32(1 << 15)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    samples = np.clip(rounded, -(1 << 15), (1 << 15) - 1).astype("<i2").tobytes()
    form = struct.pack(
        "<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * 2 * channels & 0xFFFFFFFF, 2 * channels & 0xFFFF, 16
    )
    return (
        struct.pack("<4sI4s", b"RIFF", 36 + len(samples), b"WAVE") + form + struct.pack("<4sI", b"data", len(samples)) + samples
    )


def summarize_images(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """(tag, images `[batch, height, width, channels]`) -> a summary with the first `max_images` images as PNG files.

    Raises InvalidArgumentError for a tag that is not a scalar, another rank or number of channels, images without pixels, and
    too few channels of attr `bad_color`.
    """
    if np.ndim(inputs[0]):
        raise InvalidArgumentError("Tags must be a scalar")
    images = np.asarray(inputs[1])
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(f"Tensor must be 4-D with last dim 1, 3, or 4, not {shape_text(images)}")
    if not images[0:1].size and images.shape[1] * images.shape[2] == 0:
        shown = ", ".join(map(str, images.shape))
        raise InvalidArgumentError(f"input tensor must have non-zero dims. Found: [{shown}].")
    tag, limit, bad_color = flat_strings(inputs[0])[0], attrs["max_images"], attrs["bad_color"].array
    _, height, width, channels = images.shape
    if images.dtype != np.uint8 and len(bad_color) < channels:
        raise InvalidArgumentError(
            f"expected depth <= bad_color.size, got depth = {channels}, bad_color.size = {len(bad_color)}"
        )
    values = []
    for index, image in enumerate(images[:limit]):
        pixels = image if image.dtype == np.uint8 else normalize_image(image, bad_color[:channels])
        data = number_field(1, height) + number_field(2, width) + number_field(3, channels)
        data += message_field(4, png_file(pixels))
        values.append(message_field(TAG, _numbered(tag, "image", index, limit)) + message_field(IMAGE, data))
    return _summary(values)


def normalize_image(image: Tensor, bad_color: Tensor) -> Tensor:
    """Scale floats `[height, width, channels]` to bytes: the largest becomes 255, or with negative values 0 becomes 128.

    Pixels that are not finite get the bad color.
    """
    is_finite = np.isfinite(image).all(-1)
    good = image[is_finite].astype(np.float32)
    least, most = (good.min(), good.max()) if good.size else (np.float32(np.inf), np.float32(-np.inf))
    reach, top, offset = (max(abs(least), abs(most)), 127.0, 128.0) if least < 0 else (most, 255.0, 0.0)
    scale = image.dtype.type(0 if reach < 1e-6 else top / np.float32(reach))
    found = np.empty(image.shape, np.uint8)
    found[is_finite] = (image[is_finite] * scale + image.dtype.type(offset)).astype(np.uint8)
    found[~is_finite] = bad_color
    return found


TABLE: Table = {
    "ScalarSummary": Kernel(summarize_scalars, scalar),
    "HistogramSummary": Kernel(summarize_histogram, scalar, needs_context=True),
    "TensorSummary": Kernel(summarize_tensor, scalar, needs_context=True),
    "TensorSummaryV2": Kernel(summarize_tagged_tensor, scalar),
    "MergeSummary": Kernel(merge_summaries, scalar),
    "ImageSummary": Kernel(summarize_images, scalar),
    "AudioSummary": Kernel(summarize_audio, scalar),
    "AudioSummaryV2": Kernel(summarize_audio, scalar),
}
