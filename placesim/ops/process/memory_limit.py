"""Remaining memory of a run, and TensorFlow's error if a tensor needs more.

What is free is asked of the machine when a large tensor is about to be made: its memory, and that of the control group that
the process is in.  A limit of the run's own is held against what the process has grown by since the session was opened.  Many
small values (in queues, loops, lists, caches) are nobody's large tensor: so the process is looked at now and then as well.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

try:
    import resource
except ImportError:  # where there is no POSIX
    resource = None  # type: ignore[assignment]

from placesim.core.dtypes import DTYPES, STRING, VARIANT, DataType
from placesim.core.errors import InvalidArgumentError, ResourceExhaustedError
from placesim.core.process.free_memory import free_bytes
from placesim.core.tensor_fields import OBJECT_BYTES
from placesim.machine.device_names import parse_runtime_name
from placesim.ops.process.freed_memory import give_back, keep_freed_memory

FEW_ELEMENTS = 1 << 20
"""Tensors of fewer elements are made without a look at the machine's memory."""
MAX_ELEMENTS = (1 << 63) - 1
ELEMENT_BYTES = 120
"""Size of an element of a tensor array or list as a Python object."""
LOOK_AFTER = 256
"""Nodes and elements of datasets between two looks at the process: of few bytes each, they come to a limit at most."""
OWN_BYTES = 64 << 20
"""Allowed growth of the process beside a limit: imports, compiled nodes."""
RESERVE_BYTES = 128 << 20
"""Memory that a run without a limit leaves to the machine."""
LOOK_SHARE = 1 / 16
"""Share of the machine's free memory that is given away before it is measured again, which takes as long as a pass over
megabytes.
"""
LOOK_SECONDS = 0.5
"""Maximum time between measurements, since other processes take memory too."""
_WIDEST = 16
_OVERCOMMIT_SHARE = 16
_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


class AllocationRefusal(Exception):
    """A kernel would exceed the memory limit; the caller words the error for its device."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        super().__init__(shape, dtype)
        self.shape = tuple(shape)
        self.dtype = dtype


class ProcessMemory:
    """Memory limit of a session: `limit` bytes beside the process's own, and no more than the machine has free."""

    def __init__(self, limit: int | None = None) -> None:
        keep_freed_memory()
        self.limit = limit
        self.few = FEW_ELEMENTS if limit is None else max(0, min(FEW_ELEMENTS, limit // (_WIDEST * _OVERCOMMIT_SHARE)))
        self._at_start = _resident_bytes()
        self._unseen = 0
        self._unasked = 0.0
        self._asked_again = 0.0
        self._harmless = self._at_start + (2 * RESERVE_BYTES if limit is None else limit + OWN_BYTES)

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes may be allocated."""
        if size <= self.few:
            return True
        if self.limit is not None and size > self.limit:
            return False
        if size <= FEW_ELEMENTS:
            return True
        if self._would_fit(size):
            return True
        give_back()
        return self._would_fit(size)

    def _would_fit(self, size: int) -> bool:
        """Whether there is room beside the process's memory, part of which may be free."""
        if self.limit is not None and size > self.limit - max(0, _resident_bytes() - self._at_start):
            return False
        return self._is_free(size)

    def _is_free(self, size: int) -> bool:
        """Whether the machine has `size` bytes free; its last answer is reused if that left far more."""
        self._unasked -= size
        now = time.monotonic()
        if self._unasked >= 0 and now < self._asked_again:
            return True
        free = free_bytes()
        self._unasked, self._asked_again = LOOK_SHARE * free - size, now + LOOK_SECONDS
        return size <= free

    def worked(self, count: int) -> None:
        """Told of nodes that have run, and of elements that were made.

        Raises ResourceExhaustedError if all that the run holds has come to more than it may.
        """
        self._unseen += count
        if self._unseen >= LOOK_AFTER:
            self._unseen = 0
            if _most_resident_bytes() > self._harmless and not self._is_harmless():
                give_back()
                if not self._is_harmless():
                    share = "the machine has free" if self.limit is None else f"{self.limit} bytes"
                    text = f"OOM: the tensors, strings and resources of this run take more than {share}"
                    raise _with_help(ResourceExhaustedError(text))

    def _is_harmless(self) -> bool:
        """Whether the process is within its limit; without one, within what the machine can spare."""
        size = _resident_bytes()
        if self.limit is None and size > self._harmless and free_bytes() > RESERVE_BYTES:
            self._harmless = size + RESERVE_BYTES // 2
        return size <= self._harmless

    def check(self, shape: Sequence[int], dtype: DataType) -> None:
        """Raises AllocationRefusal if a tensor of this shape has no room."""
        if not self.has_room(tensor_bytes(shape, dtype)):
            raise AllocationRefusal(shape, dtype.name)


_current: ContextVar[ProcessMemory | None] = ContextVar("memory", default=None)


@contextmanager
def serving_memory(memory: ProcessMemory) -> Iterator[None]:
    """Within, kernels that run in this context ask this memory."""
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)


def check_room(shape: Sequence[int], dtype: DataType) -> None:
    """Raise AllocationRefusal if a tensor whose size follows from values has no room."""
    current_memory().check(shape, dtype)


def check_array(shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Like `check_room`, for a numpy type."""
    if not current_memory().has_room(math.prod(map(int, shape)) * dtype.itemsize):
        raise AllocationRefusal(shape, next((known.name for known in DTYPES.values() if known.numpy == dtype), VARIANT.name))


def check_elements(count: int, each: int = ELEMENT_BYTES) -> None:
    """For kernels that keep Python objects, one for each element of a list: AllocationRefusal where these have no room."""
    if not current_memory().has_room(count * each):
        raise AllocationRefusal((count,), VARIANT.name)


def check_text(length: int) -> None:
    """Raise AllocationRefusal if strings of `length` bytes in all have no room."""
    if not current_memory().has_room(length):
        raise AllocationRefusal((), STRING.name)


def check_text_of(texts: Iterable[bytes]) -> None:
    """Like `check_text`, for kernels whose outputs are about as long as their inputs."""
    check_text(sum(map(len, texts)))


class GrowingText:
    """Room check for strings made piece by piece, whose length is unknown beforehand."""

    def __init__(self) -> None:
        self._length = 0
        self._checked = current_memory().few

    def add(self, length: int) -> None:
        """Count `length` more bytes; raises AllocationRefusal if there is no room for doubling."""
        self._length += length
        if self._length > self._checked:
            check_text(self._length)
            self._checked = 2 * self._length


def current_memory() -> ProcessMemory:
    """The memory that kernels of this context ask."""
    return _current.get() or _outside()


@cache
def _outside() -> ProcessMemory:
    """Memory limit for kernels outside of a session."""
    return ProcessMemory()


def tensor_bytes(shape: Sequence[int], dtype: DataType) -> int:
    """Bytes of a tensor; of strings and the like only the references to them."""
    return math.prod(shape) * (dtype.size or OBJECT_BYTES)


def out_of_memory(shape: Sequence[int], dtype: str, device: str = "") -> ResourceExhaustedError | InvalidArgumentError:
    """TensorFlow's error for a tensor that a device's allocator cannot make, or that no tensor can be."""
    shown = f"[{','.join(map(str, shape))}]"
    if math.prod(shape) > MAX_ELEMENTS:
        return InvalidArgumentError(f"Shape {shown} would have more than 2**63 - 1 elements")
    text = f"OOM when allocating tensor with shape{shown} and type {dtype}"
    return _with_help(ResourceExhaustedError(f"{text} on {device or _CPU} by allocator {allocator_name(device)}"))


def _with_help(error: ResourceExhaustedError) -> ResourceExhaustedError:
    error.help = ("a run may take what the machine has free, or what `--memory-limit` says",)
    return error


def allocator_name(device: str) -> str:
    """TensorFlow's name for the allocator of a device."""
    spec = parse_runtime_name(device) if device else None
    return f"GPU_{spec.id}_bfc" if spec is not None and spec.type == "GPU" else "cpu"


# --- what the machine says ------------------------------------------------------------------------------------------


def _resident_bytes() -> int:
    """Resident memory of this process; 0 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _most_resident_bytes() -> int:
    """Peak resident memory of this process, which is quick to read; a huge number if unknown."""
    if resource is None or sys.platform == "darwin":  # there in another unit
        return sys.maxsize
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
