"""Every recorded op case: outputs, state, static shapes, error classes and messages."""

from __future__ import annotations

import numpy as np
import pytest

from placesim.ops.kernels.image.encoding import decode, encode_jpeg, encode_png
from tests.ops.kernels.op_cases import FAMILIES, Case, load_cases, load_image_cases, load_recorded_cases, load_varied_cases

DAMAGED = {
    "SerializeTensor/bool/basic/4": "the recorded string lost the NUL bytes at its end: it declares 4 bytes, 3 follow",
    "SerializeTensor/int64/basic/7": "the recorded string lost the NUL bytes at its end: it declares 32 bytes, 25 follow",
}
"""Recordings that contradict themselves, each with the reason."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_family_agrees_with_tensorflow(family: str) -> None:
    total, differing = 0, {}
    for recorded in load_cases(family):
        total += 1
        found = list(Case(recorded).differences())
        if found and recorded["id"] not in DAMAGED:
            differing[recorded["id"]] = found
    print(f"{family}: {total - len(differing)} / {total} agreed")
    assert total
    assert not differing


@pytest.mark.parametrize("case_id", DAMAGED)
def test_damaged_recording_is_still_damaged(case_id: str) -> None:
    """The day the corpus is mended, the entry in `DAMAGED` has to go."""
    (recorded,) = (case for case in load_cases("string") if case["id"] == case_id)
    assert list(Case(recorded).differences())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_varied_cases_agree_with_tensorflow() -> None:
    total, differing = 0, {}
    for recorded in load_varied_cases():
        total += 1
        found = list(Case(recorded).differences())
        if found:
            differing[recorded["id"]] = found
    assert total
    assert not differing


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_recorded_cases_agree_with_tensorflow() -> None:
    differing = {recorded["id"]: found for recorded in load_recorded_cases() if (found := list(Case(recorded).differences()))}
    assert not differing


def test_images_agree_with_tensorflow() -> None:
    differing = {recorded["id"]: found for recorded in load_image_cases() if (found := list(Case(recorded).differences()))}
    assert not differing


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_an_encoded_png_decodes_to_what_it_was(channels: int) -> None:
    pixels = np.random.default_rng(channels).integers(0, 256, (5, 7, channels)).astype(np.uint8)
    (file,) = encode_png((pixels,), {"compression": -1})
    (decoded,) = decode((file,), {"channels": 0})
    assert np.array_equal(decoded, pixels)


def test_an_encoded_jpeg_decodes_to_nearly_what_it_was() -> None:
    attrs = {"format": "", "quality": 95, "progressive": False, "optimize_size": False, "chroma_downsampling": True}
    pixels = np.add.outer(np.arange(16), np.arange(16)).astype(np.uint8)[..., None] * np.uint8(4)
    (file,) = encode_jpeg((pixels,), {**attrs, "density_unit": "in", "x_density": 300, "y_density": 300})
    (decoded,) = decode((file,), {"channels": 0})
    assert np.abs(decoded.astype(int) - pixels).max() <= 3
