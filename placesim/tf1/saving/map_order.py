"""The order in which TensorFlow lists a checkpoint's tensors: that of libstdc++'s `std::unordered_map`."""

from __future__ import annotations

from collections.abc import Iterable

_WORD = (1 << 64) - 1
_FACTOR = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907
_SIZES = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697)
"""Numbers of buckets; the map takes the next one when it has as many keys as buckets."""


def in_map_order(keys: Iterable[str]) -> list[str]:
    """Keys in the order of a map to which they were added one after the other."""
    sizes = iter(_SIZES)
    size = next(sizes)
    buckets: dict[int, list[tuple[int, str]]] = {}
    for count, key in enumerate(keys):
        if count >= size and size < _SIZES[-1]:
            entries, size = _listed(buckets), next(sizes)
            buckets = {}
            for each in entries:
                buckets.setdefault(each[0] % size, []).append(each)
        entry = (_hash(key.encode()), key)
        buckets.setdefault(entry[0] % size, []).append(entry)
    return [key for _, key in _listed(buckets)]


def _listed(buckets: dict[int, list[tuple[int, str]]]) -> list[tuple[int, str]]:
    """Entries of a map: the newest bucket first, and in each bucket the newest entry first."""
    return [entry for bucket in reversed(buckets.values()) for entry in reversed(bucket)]


def _hash(data: bytes) -> int:
    """MurmurHash64A, as `std::hash` of a string computes it."""
    found = _SEED ^ (len(data) * _FACTOR & _WORD)
    whole = len(data) & ~7
    for place in range(0, whole, 8):
        word = _mixed(int.from_bytes(data[place : place + 8], "little") * _FACTOR & _WORD) * _FACTOR & _WORD
        found = (found ^ word) * _FACTOR & _WORD
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _WORD
    return _mixed(_mixed(found) * _FACTOR & _WORD)


def _mixed(word: int) -> int:
    return word ^ (word >> 47)
