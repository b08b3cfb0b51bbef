"""Hashes of strings into buckets: FarmHash's 64-bit fingerprint, SipHash-2-4 and an older hash, MurmurHash64A.

Sources: SipHash (Aumasson and Bernstein, 2012) and MurmurHash64A; FarmHash is in `ops/farmhash.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.farmhash import MASK, fingerprint64, read_word, shift_mix
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.shapes import unchanged

MURMUR_MULTIPLIER, MURMUR_SEED = 0xC6A4A7935BD1E995, 0xDECAFCAFFE

Pair = tuple[int, int]


def _rotate_left(value: int, bits: int) -> int:
    value &= MASK
    return (value << bits | value >> (64 - bits)) & MASK


def sip_hash(data: bytes, key: Pair) -> int:
    """Return SipHash-2-4 of `data` as an unsigned 64-bit number; the key has two 64-bit words."""
    state = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]
    whole = len(data) & ~7
    # the last byte of the last word is the length modulo 256
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for word in (*(read_word(data, at) for at in range(0, whole, 8)), int.from_bytes(last, "little")):
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_rounds(state: list[int], rounds: int) -> None:
    a, b, c, d = state
    for _ in range(rounds):
        a, c = a + b & MASK, c + d & MASK
        b, d = _rotate_left(b, 13) ^ a, _rotate_left(d, 16) ^ c
        a, c = _rotate_left(a, 32) + d & MASK, c + b & MASK
        b, d = _rotate_left(b, 17) ^ c, _rotate_left(d, 21) ^ a
        c = _rotate_left(c, 32)
    state[:] = a, b, c, d


def murmur_hash64(data: bytes, seed: int = MURMUR_SEED) -> int:
    """Return MurmurHash64A with TensorFlow's seed, which StringToHashBucket uses for old models."""
    whole = len(data) & ~7
    found = seed ^ (len(data) * MURMUR_MULTIPLIER & MASK)
    for at in range(0, whole, 8):
        mixed = shift_mix(read_word(data, at) * MURMUR_MULTIPLIER) * MURMUR_MULTIPLIER & MASK
        found = (found ^ mixed) * MURMUR_MULTIPLIER & MASK
    if len(data) > whole:
        # an incomplete last word is padded with zeros
        found = (found ^ read_word(data, whole)) * MURMUR_MULTIPLIER & MASK
    return shift_mix(shift_mix(found) * MURMUR_MULTIPLIER)


def _buckets(values: Tensor, attrs: Attrs, hash_value: Callable[[Any], int]) -> Sequence[Tensor]:
    count = attrs["num_buckets"]
    if count < 1:
        raise InvalidArgumentError(f"Value for attr 'num_buckets' of {count} must be at least minimum 1")
    hashed = [hash_value(value) % count for value in np.asarray(values).reshape(-1).tolist()]
    return (np.array(hashed, np.int64).reshape(np.shape(values)),)


def hash_fast(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Hash each string, in any shape, by FarmHash's fingerprint modulo `num_buckets`, to int64."""
    return _buckets(inputs[0], attrs, fingerprint64)


def hash_legacy(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Hash each string, in any shape, by MurmurHash64A modulo `num_buckets`, to int64."""
    return _buckets(inputs[0], attrs, murmur_hash64)


def hash_strong(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Hash each string by SipHash modulo `num_buckets`, to int64. Raises InvalidArgumentError for a key without 2 elements."""
    if len(attrs["key"]) != 2:
        raise InvalidArgumentError("Key must have 2 elements")
    key = (attrs["key"][0] & MASK, attrs["key"][1] & MASK)
    return _buckets(inputs[0], attrs, lambda data: sip_hash(data, key))


def hash_integers(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Hash each integer, in any shape, by FarmHash's fingerprint of its decimal text modulo `num_buckets`, to int64."""
    return _buckets(inputs[0], attrs, lambda number: fingerprint64(b"%d" % number))


TABLE: Table = {
    "_TensorToHashBucketFast": Kernel(hash_integers, unchanged),
    "StringToHashBucket": Kernel(hash_legacy, unchanged),
    "StringToHashBucketFast": Kernel(hash_fast, unchanged),
    "StringToHashBucketStrong": Kernel(hash_strong, unchanged),
}
