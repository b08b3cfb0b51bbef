"""`choose` is `np.where`, to the bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from placesim.ops.kernels.element_selection import choose

DTYPES = ("?", "i1", "u2", "f2", "i4", "f4", "f8", "c8", "c16")


@given(st.sampled_from(DTYPES), arrays.mutually_broadcastable_shapes(num_shapes=3, max_side=40), st.data())
def test_it_is_where_to_the_bit(dtype: str, shapes: arrays.BroadcastableShapes, data: st.DataObject) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    condition, x, y = (
        np.frombuffer(draw.bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape)
        for shape, kind in zip(shapes.input_shapes, (np.dtype("u1"), np.dtype(dtype), np.dtype(dtype)), strict=True)
    )
    if dtype == "?":
        x, y = x.view("u1") % 2 == 1, y.view("u1") % 2 == 1
    found, wanted = choose(condition % 2 == 1, x, y), np.where(condition % 2 == 1, x, y)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes()


def test_texts_and_slices_of_larger_tensors() -> None:
    condition = np.arange(400).reshape(20, 20) % 3 == 0
    texts = np.full((20, 20), b"x", object)
    assert (choose(condition, texts, np.full((20, 20), b"y", object)) == np.where(condition, b"x", b"y")).all()
    wide = np.arange(1600.0).reshape(40, 40)
    assert (
        choose(condition, wide[::2, ::2], -wide[1::2, 1::2]) == np.where(condition, wide[::2, ::2], -wide[1::2, 1::2])
    ).all()
