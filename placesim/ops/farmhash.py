"""FarmHash's 64-bit fingerprint, which TensorFlow uses for strings and long attrs.

Source: the published algorithm (`farmhashna`).
"""

from __future__ import annotations

MASK = (1 << 64) - 1
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
"""FarmHash's primes."""

_Pair = tuple[int, int]


def fingerprint64(data: bytes) -> int:
    """Return FarmHash's Fingerprint64 of some bytes, as an unsigned 64-bit number."""
    size = len(data)
    if size <= 16:
        return _hash_up_to_16(data)
    if size <= 32:
        return _hash_up_to_32(data)
    if size <= 64:
        return _hash_up_to_64(data)
    return _hash_long(data)


def _hash_pair(u: int, v: int, mul: int) -> int:
    a = shift_mix(((u ^ v) & MASK) * mul)
    b = shift_mix(((v ^ a) & MASK) * mul)
    return b * mul & MASK


def _hash_up_to_16(data: bytes) -> int:
    size = len(data)
    mul = K2 + size * 2
    if size >= 8:
        a, b = read_word(data, 0) + K2, read_word(data, size - 8)
        return _hash_pair(_rotate_right(b, 37) * mul + a, (_rotate_right(a, 25) + b) * mul, mul)
    if size >= 4:
        return _hash_pair(size + (_half_word(data, 0) << 3), _half_word(data, size - 4), mul)
    if size:
        y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        return shift_mix(y * K2 ^ z * K0) * K2 & MASK
    return K2


def _hash_up_to_32(data: bytes) -> int:
    size = len(data)
    mul = K2 + size * 2
    a, b = read_word(data, 0) * K1, read_word(data, 8)
    c, d = read_word(data, size - 8) * mul, read_word(data, size - 16) * K2
    return _hash_pair(_rotate_right(a + b, 43) + _rotate_right(c, 30) + d, a + _rotate_right(b + K2, 18) + c, mul)


def _hash_up_to_64(data: bytes) -> int:
    size = len(data)
    mul = K2 + size * 2
    a, b = read_word(data, 0) * K2, read_word(data, 8)
    c, d = read_word(data, size - 8) * mul, read_word(data, size - 16) * K2
    y = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d
    z = _hash_pair(y, a + _rotate_right(b + K2, 18) + c, mul)
    e, f = read_word(data, 16) * mul, read_word(data, 24)
    g, h = (y + read_word(data, size - 32)) * mul, (z + read_word(data, size - 24)) * mul
    return _hash_pair(_rotate_right(e + f, 43) + _rotate_right(g, 30) + h, e + _rotate_right(f + a, 18) + g, mul)


def _weak_hash(data: bytes, at: int, a: int, b: int) -> _Pair:
    """Return two seeds mixed with the 32 bytes at an offset."""
    w, x, y, z = (read_word(data, at + offset) for offset in (0, 8, 16, 24))
    a += w
    b = _rotate_right(b + a + z, 21)
    c = a
    a += x + y
    return (a + z) & MASK, (b + _rotate_right(a, 44) + c) & MASK


def _mix_block(
    data: bytes, at: int, state: tuple[int, int, int, _Pair, _Pair], mul: int, weight: int
) -> tuple[int, int, int, _Pair, _Pair]:
    """Return the state (x, y, z, v, w) after the 64 bytes at an offset; `weight` is 9 for the last block, else 1."""
    x, y, z, v, w = state
    x = _rotate_right(x + y + v[0] + read_word(data, at + 8), 37) * mul & MASK
    y = _rotate_right(y + v[1] + read_word(data, at + 48), 42) * mul & MASK
    x ^= w[1] * weight & MASK
    y += v[0] * weight + read_word(data, at + 40)
    z = _rotate_right(z + w[0], 33) * mul & MASK
    v = _weak_hash(data, at, v[1] * mul, x + w[0])
    w = _weak_hash(data, at + 32, z + w[1], y + read_word(data, at + 16))
    return z, y & MASK, x, v, w


def _hash_long(data: bytes) -> int:
    seed, tail = 81, (len(data) - 1) & 63
    y = seed * K1 + 113 & MASK
    state = (seed * K2 + read_word(data, 0) & MASK, y, shift_mix(y * K2 + 113) * K2 & MASK, (0, 0), (0, 0))
    for at in range(0, (len(data) - 1) // 64 * 64, 64):
        state = _mix_block(data, at, state, K1, 1)
    x, y, z, v, w = state
    mul = K1 + ((z & 0xFF) << 1)
    first = w[0] + tail
    v = (v[0] + first & MASK, v[1])
    w = (first + v[0] & MASK, w[1])
    x, y, z, v, w = _mix_block(data, len(data) - 64, (x, y, z, v, w), mul, 9)
    return _hash_pair(_hash_pair(v[0], w[0], mul) + shift_mix(y) * K0 + z, _hash_pair(v[1], w[1], mul) + x, mul)


def read_word(data: bytes, at: int) -> int:
    """Return the 64-bit word at an offset, or the bytes there if they are fewer."""
    return int.from_bytes(data[at : at + 8], "little")


def _half_word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotate_right(value: int, bits: int) -> int:
    value &= MASK
    return (value >> bits | value << (64 - bits)) & MASK


def shift_mix(value: int) -> int:
    """Return the low 64 bits of a number, mixed with themselves shifted by 47 bits."""
    value &= MASK
    return value ^ value >> 47
