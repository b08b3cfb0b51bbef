"""Free chunks stay in order, whatever is put in and taken out, with few and with so many that blocks are halved and joined."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.machine.memory.free_chunks import FreeChunks

Pair = tuple[int, int]


def contents(chunks: FreeChunks) -> list[int]:
    return list(chunks.of_at_least(0))


@given(st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(0, (1 << 63) - 1)), unique=True), st.integers(1, 1 << 40))
def test_order_is_by_size_then_address(pairs: list[Pair], size: int) -> None:
    chunks = FreeChunks()
    for pair in pairs:
        chunks.add(*pair)
    ordered = sorted(pairs)
    assert contents(chunks) == [address for _, address in ordered]
    assert list(chunks.of_at_least(size)) == [address for found, address in ordered if found >= size]
    assert chunks.largest == max((found for found, _ in pairs), default=0)
    first = next((pair for pair in ordered if pair[0] >= size), None)
    assert chunks.take(size) == (first[1] if first else -1)
    assert len(chunks) == len(pairs) - (first is not None)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [1, 40, 1 << 40])
def test_many_chunks_against_a_sorted_list(sizes: int) -> None:
    rng = random.Random(sizes)
    chunks, model = FreeChunks(), list[Pair]()
    for growing in (True, False, True, False):
        for step in range(12_000):
            if not model or (rng.random() < 0.9) == growing:
                pair = (rng.randrange(1, sizes + 1), rng.getrandbits(62))
                chunks.add(*pair)
                model.insert(bisect_left(model, pair), pair)
            elif step % 2:
                chunks.remove(*model.pop(rng.randrange(len(model))))
            else:
                size = rng.randrange(1, sizes + 1)
                at = bisect_left(model, (size, 0))
                assert chunks.take(size) == (model.pop(at)[1] if at < len(model) else -1)
        assert contents(chunks) == [address for _, address in model]
        assert chunks.largest == (model[-1][0] if model else 0)
        assert len(chunks) == len(model)
