"""Memory that a worker shares with other workers on its machine: a large tensor is copied once, into memory that both map.

The memory has no name in any folder. Another process opens it by the sender's process id and file number, if the system permits
it (same machine, same user). The memory is freed when no process uses it any more, even if a process crashes. Only Linux has
this. On other systems, or if the other process can't open the memory, tensors go over the connection.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections import defaultdict
from mmap import PAGESIZE, mmap
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from placesim.core.operating_system import has_shared_memory, open_shared_memory, shared_memory_path
from placesim.ops.process.memory_limit import current_memory

LEAST_BYTES = 1 << 18
"""Minimum bytes of a tensor in shared memory; it is assumed that mapping memory takes as long as copying this many bytes."""
MOST_PIECES = 256
"""Maximum number of segments; each takes two open files here and one in the other process. A usual limit is 1024 files."""
KEPT_STEPS = 8
"""Number of steps after which an unused segment is released."""
_FINENESS = 3
_TOKEN_BYTES = 16
_FREE, _LENT = 0, 1


class Probe(NamedTuple):
    """A test segment: a process that reads the token from the file `path` can use this process's shared memory."""

    path: str
    token: bytes


class SharedArray(NamedTuple):
    """An array in a segment of shared memory, for another process; `token` belongs to this segment alone, unlike its path."""

    path: str
    token: bytes
    size: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str


class _SharedMemory:
    """A segment: memory of this process that other processes can open; its last byte says whether one of them uses it.

    `used` is the number of steps since it was last lent. The constructor raises OSError if the system has no memory left.
    """

    used: int

    def __init__(self, size: int) -> None:
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self._file = open_shared_memory()  # closed with this object
        self._file.truncate(size + PAGESIZE)
        self.memory = mmap(self._file.fileno(), size + PAGESIZE)

    @property
    def path(self) -> str:
        return shared_memory_path(self._file)

    @property
    def is_free(self) -> bool:
        return self.memory[-1] == _FREE


class SharedMemoryLender:
    """Shared memory that one session of a worker lends to other workers."""

    def __init__(self) -> None:
        self._pieces: defaultdict[int, list[_SharedMemory]] = defaultdict(list)
        self._count = 0
        self._probe: tuple[_SharedMemory, Probe] | None = None

    def probe(self) -> Probe | None:
        """Return the test segment for other processes; None if the system has no such shared memory."""
        if self._probe is None and has_shared_memory():
            piece = _SharedMemory(0)
            piece.memory[:_TOKEN_BYTES] = piece.token
            self._probe = piece, Probe(piece.path, piece.token)
        return None if self._probe is None else self._probe[1]

    def lend(self, value: Any) -> Any:
        """Return an array's copy in shared memory for another process; the array itself if it is small or there is no room."""
        if not isinstance(value, np.ndarray) or value.nbytes < LEAST_BYTES or value.dtype.hasobject:
            return value
        piece = self._free_piece(value.nbytes)
        if piece is None:
            return value
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        np.copyto(_array_in(piece.memory, value.dtype, value.shape, order), value)
        piece.memory[-1] = _LENT
        piece.used = 0
        return SharedArray(piece.path, piece.token, piece.memory.size(), value.dtype, value.shape, order)

    def _free_piece(self, nbytes: int) -> _SharedMemory | None:
        # sizes are rounded up, so that tensors whose sizes change a little from step to step can use the same segments
        fine = max(PAGESIZE, 1 << (nbytes.bit_length() - 1 - _FINENESS))
        size = -(-nbytes // fine) * fine
        for piece in self._pieces[size]:
            if piece.is_free:
                return piece
        if self._count >= MOST_PIECES or not current_memory().has_room(size):
            return None
        try:
            piece = _SharedMemory(size)
        except OSError:
            return None
        self._pieces[size].append(piece)
        self._count += 1
        return piece

    def step_ended(self) -> None:
        """Release the segments that were not used for KEPT_STEPS steps; called at the end of each step."""
        for pieces in self._pieces.values():
            for piece in list(pieces):
                piece.used += 1
                if piece.used > KEPT_STEPS and piece.is_free:
                    pieces.remove(piece)
                    self._count -= 1

    def close(self) -> None:
        """Stop lending; other processes keep the segments that they use."""
        self._pieces.clear()
        self._probe = None


def can_borrow(probe: Probe | None) -> bool:
    """Whether this process can open the shared memory of the process that made the probe."""
    if probe is None:
        return False
    try:
        with open(probe.path, "rb") as file:
            return file.read(_TOKEN_BYTES) == probe.token
    except OSError:
        return False


class SharedMemoryBorrower:
    """Segments of other workers that one session of a worker has mapped; it keeps each for the next tensor in it.

    Mapping a segment, and its page faults, take as long as copying it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._mapped: dict[bytes, tuple[mmap, int]] = {}
        """Each segment, by token, with the number of the step in which it was last used."""
        self._step = 0

    def borrow(self, shared: SharedArray) -> np.ndarray[Any, Any]:
        """Return a writable array in a segment, which becomes free when no process uses the array any more."""
        with self._lock:
            memory, _ = self._mapped.get(shared.token) or (_map(shared.path, shared.size), 0)
            self._mapped[shared.token] = memory, self._step
        array = _array_in(memory, shared.dtype, shared.shape, shared.order)
        weakref.finalize(array, memory.__setitem__, -1, _FREE).atexit = False  # views of the array keep it alive
        return array

    def step_ended(self) -> None:
        """Forget the segments that were not used for KEPT_STEPS steps; called at the end of each step."""
        with self._lock:
            self._step += 1
            oldest = self._step - KEPT_STEPS
            self._mapped = {token: (memory, used) for token, (memory, used) in self._mapped.items() if used >= oldest}

    def close(self) -> None:
        """Forget all segments; each is unmapped when no array uses it any more."""
        with self._lock:
            self._mapped.clear()


def _map(path: str, size: int) -> mmap:
    file = os.open(path, os.O_RDWR)
    try:
        return mmap(file, size)
    finally:
        os.close(file)


def _array_in(memory: mmap, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> np.ndarray[Any, Any]:
    return np.ndarray(shape, dtype, memory, order="F" if order == "F" else "C")
