"""Summaries: the messages byte by byte where they are short, and what their sounds, pictures and histograms hold."""

from __future__ import annotations

import io
import struct
import sys
import wave
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import UINT8
from placesim.core.errors import InvalidArgumentError
from placesim.core.protobuf_wire import field_values
from placesim.core.tensor_fields import read_serialised
from placesim.ops.attributes import TensorValue
from placesim.ops.kernels.image.encoding import decode
from placesim.ops.kernels.image.png_files import png_file
from placesim.ops.kernels.resources.summaries import bucket_limits, histogram_message, normalize_image
from tests.ops.kernels.kernel_calls import Machine, shapes


def text(value: bytes) -> Any:
    return np.array(value, object)


def values_of(summary: Any) -> list[dict[int, Any]]:
    """The fields of each value of a summary."""
    assert summary.shape == ()
    return [dict(field_values(value)) for _, value in field_values(summary.item())]  # type: ignore[arg-type]


def test_a_scalar_summary_byte_by_byte() -> None:
    found = Machine().run("ScalarSummary", text(b"loss"), np.float32(0.5), T="float")
    assert found.item() == b"\n\x0b\n\x04loss\x15\x00\x00\x00?"
    zero = Machine().run("ScalarSummary", text(b"l"), np.int64(0), T="int64")
    assert zero.item() == b"\n\x08\n\x01l\x15\x00\x00\x00\x00"  # a value that is set is written even where it is zero


def test_scalars_have_a_tag_each() -> None:
    machine = Machine()
    tags = np.array([b"a", b"b"], object)
    found = values_of(machine.run("ScalarSummary", tags, np.array([1, 2], np.float64), T="double"))
    assert [(value[1], struct.unpack("<f", value[2])[0]) for value in found] == [(b"a", 1.0), (b"b", 2.0)]
    with pytest.raises(InvalidArgumentError) as caught:
        machine.run("ScalarSummary", text(b"a"), np.zeros(2, np.float32), T="float")
    assert caught.value.message == "tags and values are not the same shape: [] != [2] (tag 'a')"


def test_a_histogram_counts_every_value_in_its_bucket() -> None:
    values = np.array([-1.5, 0.0, 0.0, 1.0, 2.0, 2.05, 1e30])
    fields = dict(field_values(histogram_message(values)))
    doubles = {field: np.frombuffer(data, np.float64) for field, data in fields.items()}  # type: ignore[arg-type]
    assert [doubles[field][0] for field in (1, 2, 3)] == [-1.5, 1e30, 7.0]
    assert doubles[4][0] == sum(values.tolist())
    limits, counts = doubles[6], doubles[7]
    assert counts.sum() == 7
    for value in values:
        place = int(np.argmax(limits > value))
        assert counts[place] > 0
        assert place == 0 or limits[place - 1] <= value
    assert not ((counts[:-1] == 0) & (counts[1:] == 0)).any()  # runs of empty buckets are one


def test_a_histogram_of_nothing_has_one_empty_bucket() -> None:
    fields = dict(field_values(histogram_message(np.array([]))))
    largest = sys.float_info.max
    assert {field: struct.unpack("<d", data)[0] for field, data in fields.items()} == {  # type: ignore[arg-type]
        1: largest,
        2: -largest,
        6: largest,
        7: 0.0,
    }


def test_bucket_limits_grow_by_a_tenth() -> None:
    limits = bucket_limits()
    middle = len(limits) // 2
    assert limits[middle] == 0
    assert limits[middle + 1] == 1e-12
    assert limits[middle + 3] == 1e-12 * 1.1 * 1.1
    assert (limits == -limits[::-1]).all()
    assert limits[-2] < 1e20 < limits[-2] * 1.1


@pytest.mark.parametrize(("value", "word"), [(np.nan, "Nan"), (-np.inf, "Infinity")])
def test_a_histogram_takes_finite_values_only(value: float, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{word} in summary histogram for: h$"):
        Machine().run("HistogramSummary", text(b"t"), np.array([1, value], np.float32), T="float", node="h")


def test_tensors_are_whole_messages() -> None:
    machine = Machine()
    tensor = np.array([[1, 2]], np.int32)
    (by_name,) = values_of(machine.run("TensorSummary", tensor, T="int32", node="scope/t"))
    assert by_name[7] == b"scope/t"
    dtype, found = read_serialised(by_name[8])
    assert (dtype.name, found.tolist()) == ("int32", [[1, 2]])
    metadata = b"\n\x02\n\x00"
    (by_tag,) = values_of(machine.run("TensorSummaryV2", text(b"t"), tensor, text(metadata), T="int32"))
    assert (by_tag[1], by_tag[9]) == (b"t", metadata)
    with pytest.raises(InvalidArgumentError, match="tag must be scalar"):
        machine.run("TensorSummaryV2", np.array([b"t"], object), tensor, text(b""), T="int32")


def test_merging_keeps_the_order_and_refuses_a_tag_that_comes_twice() -> None:
    machine = Machine()
    one, two = (machine.run("ScalarSummary", text(tag), np.float32(1), T="float") for tag in (b"a", b"b"))
    merged = machine.run("MergeSummary", np.array([one.item()], object), two, N=2)
    assert merged.item() == one.item() + two.item()
    with pytest.raises(InvalidArgumentError, match="Duplicate tag a found in summary inputs"):
        machine.run("MergeSummary", one, one, N=2)
    with pytest.raises(InvalidArgumentError, match="Could not parse one of the summary inputs"):
        machine.run("MergeSummary", one, text(b"\xff"), N=2)
    unnamed = machine.run("TensorSummary", np.float32(1), T="float")
    assert len(values_of(machine.run("MergeSummary", unnamed, unnamed, N=2))) == 2


def test_a_sound_is_a_wav_file() -> None:
    sounds = np.array([[[0.0, 0.5], [-1.0, 1.0], [0.25, -0.25]]] * 2, np.float32)
    found = values_of(Machine().run("AudioSummaryV2", text(b"s"), sounds, np.float32(8000)))
    assert [value[1] for value in found] == [b"s/audio/0", b"s/audio/1"]
    audio = dict(field_values(found[0][6]))
    assert (audio[2], audio[3], audio[5]) == (2, 3, b"audio/wav")
    with wave.open(io.BytesIO(audio[4])) as file:  # type: ignore[arg-type]
        assert (file.getnchannels(), file.getframerate(), file.getnframes(), file.getsampwidth()) == (2, 8000, 3, 2)
        samples = np.frombuffer(file.readframes(3), "<i2").reshape(3, 2)
    assert samples.tolist() == [[0, 16384], [-32768, 32767], [8192, -8192]]
    alone = Machine().run("AudioSummary", text(b"s"), sounds[:, :, 0], sample_rate=8000.0, max_outputs=1)
    assert [value[1] for value in values_of(alone)] == [b"s/audio"]
    with pytest.raises(InvalidArgumentError, match="sample_rate must be > 0"):
        Machine().run("AudioSummaryV2", text(b"s"), sounds, np.float32(0))


def pixels_of(png: bytes, height: int) -> np.ndarray[Any, Any]:
    """The bytes of a PNG file's pixels, `[height, width * channels]`."""
    (pixels,) = decode((np.array(png, object),), {"channels": 0})
    return np.asarray(pixels).reshape(height, -1)


def test_a_picture_is_a_png_file() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    (found,) = values_of(Machine().run("ImageSummary", text(b"p"), image, T="uint8"))
    assert found[1] == b"p/image/0"
    fields = dict(field_values(found[4]))
    assert (fields[1], fields[2], fields[3]) == (2, 4, 3)
    png: Any = fields[4]
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert pixels_of(png, 2).reshape(1, 2, 4, 3).tolist() == image.tolist()
    assert pixels_of(png_file(image[0, :, :, :1]), 2).shape == (2, 4)


def test_floats_are_stretched_to_bytes() -> None:
    red = np.array([255, 0, 0], np.uint8)
    positive = np.array([[[0, 1, 2], [4, 2, np.nan]]], np.float32)
    assert normalize_image(positive, red).tolist() == [[[0, 127, 255], [255, 0, 0]]]
    signed = np.array([[[-2], [1]]], np.float32)
    assert normalize_image(signed, red[:1]).tolist() == [[[1], [191]]]
    assert normalize_image(np.zeros((1, 1, 1), np.float32), red[:1]).tolist() == [[[0]]]
    bad = TensorValue(UINT8, np.array([7], np.uint8))
    (found,) = values_of(Machine().run("ImageSummary", text(b"p"), np.full((1, 1, 1, 1), np.inf, np.float32), bad_color=bad))
    assert pixels_of(dict(field_values(found[4]))[4], 1).tolist() == [[7]]  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Tensor must be 4-D with last dim 1, 3, or 4, not \[1,2\]"):
        Machine().run("ImageSummary", text(b"p"), np.zeros((1, 2), np.float32))


def test_static_shapes() -> None:
    assert shapes("MergeSummary", (), (3,), N=2) == [()]


def test_python_functions_are_not_there() -> None:
    with pytest.raises(InvalidArgumentError, match="ValueError: callback pyfunc_of_nobody is not found"):
        Machine().run("PyFunc", np.float32(1), token="pyfunc_of_nobody", Tin=["float"], Tout=["float"])
