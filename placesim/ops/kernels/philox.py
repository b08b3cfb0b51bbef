"""The Philox 4x32-10 generator, which makes blocks of four 32-bit words from a key and a counter.

The words come in TensorFlow's order. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). An op's own
generator (`op_generator`) is seeded by the attrs `seed` and `seed2`. Each run reserves a range of its counter, so that no two
runs use the same numbers.
"""

from __future__ import annotations

import secrets

import numpy as np

from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import KernelContext, Tensor

MASK_32, MASK_64, MASK_128 = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
CHUNK = 1 << 13
"""Number of blocks computed together, so that their words stay in the processor's cache."""
SCRAMBLING_KEY = 0x02461E29_3EC8F720
"""The key with which TensorFlow scrambles the seeds of stateless ops."""
RESERVED_SAMPLES = 256
"""Number of blocks that TensorFlow reserves for each output element."""


class Philox:
    """A generator at a position of its sequence: a 64-bit `key` and a 128-bit `counter`, which counts blocks."""

    __slots__ = ("counter", "key")

    def __init__(self, key: int, counter: int) -> None:
        self.key = key & MASK_64
        self.counter = counter & MASK_128

    def copy(self) -> Philox:
        return Philox(self.key, self.counter)

    def skip(self, blocks: int) -> None:
        """Advance by `blocks` blocks."""
        self.counter = (self.counter + blocks) & MASK_128

    def take(self, count: int) -> Tensor:
        """Return the next `count` blocks, uint32 `[count, 4]`, and advance past them."""
        words = self.blocks_at(np.arange(count, dtype=np.uint64))
        self.skip(count)
        return words

    def blocks_at(self, offsets: Tensor) -> Tensor:
        """Return the blocks at uint64 offsets `[n]` from the counter, uint32 `[n, 4]`, without advancing."""
        words = np.empty((len(offsets), 4), np.uint32)
        start, high = np.uint64(self.counter & MASK_64), np.uint64(self.counter >> 64)
        for at in range(0, len(offsets), CHUNK):
            low = offsets[at : at + CHUNK] + start
            _encrypt(low, high + (low < start), self.key, words[at : at + CHUNK])
        return words


def _encrypt(low: Tensor, high: Tensor, key: int, words: Tensor) -> None:
    """Write the blocks with counters `high * 2**64 + low` into `words`, uint32 `[n, 4]`."""
    mask, half = np.uint64(MASK_32), np.uint64(32)
    w0, w1, w2, w3 = low & mask, low >> half, high & mask, high >> half
    key0, key1 = key & MASK_32, key >> 32
    for _ in range(ROUNDS):
        # the words of 32 bits lie in 64, so that a product has both of its halves
        product0, product1 = w0 * MULTIPLIERS[0], w2 * MULTIPLIERS[1]
        w0, w2 = product1 >> half, product0 >> half
        w0 ^= w1
        w0 ^= np.uint64(key0)
        w2 ^= w3
        w2 ^= np.uint64(key1)
        product1 &= mask
        product0 &= mask
        w1, w3 = product1, product0
        key0, key1 = (key0 + KEY_STEPS[0]) & MASK_32, (key1 + KEY_STEPS[1]) & MASK_32
    words[:, 0], words[:, 1], words[:, 2], words[:, 3] = w0, w1, w2, w3


def seeded_philox(seed: int, seed2: int) -> Philox:
    """Return the generator with `seed` as its key and `seed2` as the upper half of its counter."""
    return Philox(seed, (seed2 & MASK_64) << 64)


def op_generator(context: KernelContext, attrs: Attrs) -> Philox:
    """Return the node's own generator, created at its first run. If both seeds are zero, the system chooses random ones."""
    generator: Philox | None = context.node_state.get("philox")
    if generator is None:
        seed, seed2 = attrs["seed"], attrs["seed2"]
        if not seed and not seed2:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        generator = context.node_state["philox"] = seeded_philox(seed, seed2)
    return generator


def reserve(context: KernelContext, attrs: Attrs, blocks: int) -> Philox:
    """Return a generator for one run of the node, and advance the node's own generator by `blocks`."""
    generator = op_generator(context, attrs)
    reserved = generator.copy()
    generator.skip(blocks)
    return reserved


def scrambled_philox(seed: int, seed2: int) -> Philox:
    """Return the generator of a stateless op's two seeds, which a block of Philox mixes first."""
    mixed = Philox(SCRAMBLING_KEY, (seed2 & MASK_64) << 64 | seed & MASK_64).take(1)[0]
    low, high, low_counter, high_counter = (int(word) for word in mixed)
    return Philox(high << 32 | low, (high_counter << 32 | low_counter) << 64)


class WordStream:
    """Words of a generator, one at a time, for samplers that need an unknown number of words."""

    def __init__(self, generator: Philox) -> None:
        self._generator = generator.copy()
        # few at first, as most samplers need few
        self._blocks = 16
        self._waiting: list[int] = []
        """Words generated but not yet returned, in reverse order."""

    def word(self) -> int:
        """Return 32 random bits."""
        if not self._waiting:
            self._waiting = self._generator.take(self._blocks).reshape(-1)[::-1].tolist()
            self._blocks = min(self._blocks * 2, CHUNK)
        return self._waiting.pop()

    def double_word(self) -> int:
        """Return 64 random bits; the first word has the lower 32."""
        return self.word() | self.word() << 32

    def float32(self) -> float:
        """Return a float32 in [0, 1) with 23 random bits."""
        return (self.word() & 0x7FFFFF) / (1 << 23)

    def float64(self) -> float:
        """Return a float64 in [0, 1) with 52 random bits; the first word gives the upper 20."""
        upper = self.word() & 0xFFFFF
        return (upper << 32 | self.word()) / (1 << 52)

    def below(self, limit: int, bits: int = 32) -> int:
        """Return an integer in [0, limit), all equally likely."""
        draw = self.word if bits == 32 else self.double_word
        if limit & (limit - 1) == 0:
            return draw() & (limit - 1)
        remainder = ((1 << bits) - 1) % limit + 1
        found = draw()
        # rejects the lowest draws, so that the others have each remainder equally often
        while found < remainder:
            found = draw()
        return found % limit
