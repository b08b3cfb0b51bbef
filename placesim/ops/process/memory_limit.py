"""The remaining memory of a run, and TensorFlow's error if a tensor needs more.

Before a large tensor is allocated, the free memory of the machine and of the process's control group is measured. The run's own
limit applies to the growth of the process since the session was opened. The process's size is also checked from time to time,
since many small values (in queues, loops, lists, caches) add up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from placesim.core.dtypes import DTYPES, STRING, VARIANT, DataType
from placesim.core.errors import InvalidArgumentError, ResourceExhaustedError
from placesim.core.operating_system import free_bytes, peak_resident_bytes, resident_bytes
from placesim.core.tensor_fields import OBJECT_BYTES
from placesim.machine.device_names import parse_runtime_name
from placesim.ops.process.freed_memory import give_back, keep_freed_memory

FEW_ELEMENTS = 1 << 20
"""Tensors with fewer elements are allocated without measuring the machine's memory."""
MAX_ELEMENTS = (1 << 63) - 1
ELEMENT_BYTES = 120
"""Size of an element of a tensor array or list as a Python object, in bytes."""
LOOK_AFTER = 256
"""Number of nodes and of dataset elements between two checks of the process's size."""
OWN_BYTES = 64 << 20
"""Bytes that the process may grow in addition to a limit: imports, compiled nodes."""
RESERVE_BYTES = 128 << 20
"""Bytes that a run without a limit leaves to the machine."""
LOOK_SHARE = 1 / 16
"""Share of the machine's free memory that may be allocated before free memory is measured again.

A measurement takes as long as a pass over megabytes.
"""
LOOK_SECONDS = 0.5
"""Maximum seconds between measurements, since other processes allocate memory too."""
_WIDEST = 16
_OVERCOMMIT_SHARE = 16
_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


class AllocationRefusal(Exception):
    """A kernel would exceed the memory limit; the caller adds the device to the error."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        super().__init__(shape, dtype)
        self.shape = tuple(shape)
        self.dtype = dtype


class ProcessMemory:
    """The memory limit of a session: the process may grow by `limit` bytes, but never by more than the machine has free."""

    def __init__(self, limit: int | None = None) -> None:
        keep_freed_memory()
        self.limit = limit
        self.few = FEW_ELEMENTS if limit is None else max(0, min(FEW_ELEMENTS, limit // (_WIDEST * _OVERCOMMIT_SHARE)))
        self._at_start = resident_bytes()
        self._unchecked_work = 0
        self._unmeasured_bytes = 0.0
        self._next_measurement = 0.0
        self._accepted_bytes = self._at_start + (2 * RESERVE_BYTES if limit is None else limit + OWN_BYTES)

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
        """Whether `size` bytes fit within the limit and the machine's free memory."""
        if self.limit is not None and size > self.limit - max(0, resident_bytes() - self._at_start):
            return False
        return self._is_free(size)

    def _is_free(self, size: int) -> bool:
        """Whether the machine has `size` bytes free; the last measurement is reused if far more was free."""
        self._unmeasured_bytes -= size
        now = time.monotonic()
        if self._unmeasured_bytes >= 0 and now < self._next_measurement:
            return True
        free = free_bytes()
        self._unmeasured_bytes, self._next_measurement = LOOK_SHARE * free - size, now + LOOK_SECONDS
        return size <= free

    def worked(self, count: int) -> None:
        """Count nodes that have run and elements that were created; from time to time, check the process's size.

        Raises ResourceExhaustedError if the run uses more memory than it may.
        """
        self._unchecked_work += count
        if self._unchecked_work >= LOOK_AFTER:
            self._unchecked_work = 0
            if peak_resident_bytes() > self._accepted_bytes and not self._is_accepted():
                give_back()
                if not self._is_accepted():
                    share = "the machine has free" if self.limit is None else f"{self.limit} bytes"
                    text = f"OOM: the tensors, strings and resources of this run take more than {share}"
                    raise _with_help(ResourceExhaustedError(text))

    def _is_accepted(self) -> bool:
        """Whether the process's size is within its limit; without a limit, whether it leaves `RESERVE_BYTES` to the machine."""
        size = resident_bytes()
        if self.limit is None and size > self._accepted_bytes and free_bytes() > RESERVE_BYTES:
            self._accepted_bytes = size + RESERVE_BYTES // 2
        return size <= self._accepted_bytes

    def check(self, shape: Sequence[int], dtype: DataType) -> None:
        """Raise AllocationRefusal if there is no room for a tensor of this shape."""
        if not self.has_room(tensor_bytes(shape, dtype)):
            raise AllocationRefusal(shape, dtype.name)


_current: ContextVar[ProcessMemory | None] = ContextVar("memory", default=None)


@contextmanager
def serving_memory(memory: ProcessMemory) -> Iterator[None]:
    """Return a context in which kernels are limited by this memory."""
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)


def check_room(shape: Sequence[int], dtype: DataType) -> None:
    """Raise AllocationRefusal if there is no room for a tensor. For kernels whose inputs' values determine its size."""
    current_memory().check(shape, dtype)


def check_array(shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Check as `check_room` does, for a numpy type."""
    if not current_memory().has_room(math.prod(map(int, shape)) * dtype.itemsize):
        raise AllocationRefusal(shape, next((known.name for known in DTYPES.values() if known.numpy == dtype), VARIANT.name))


def check_elements(count: int, each: int = ELEMENT_BYTES) -> None:
    """Raise AllocationRefusal if there is no room for `count` Python objects, one per element of a list."""
    if not current_memory().has_room(count * each):
        raise AllocationRefusal((count,), VARIANT.name)


def check_text(length: int) -> None:
    """Raise AllocationRefusal if there is no room for strings of `length` bytes in total."""
    if not current_memory().has_room(length):
        raise AllocationRefusal((), STRING.name)


def check_text_of(texts: Iterable[bytes]) -> None:
    """Check as `check_text` does, for kernels whose outputs are about as long as their inputs."""
    check_text(sum(map(len, texts)))


class GrowingText:
    """Checks the room for strings made piece by piece, whose length is unknown beforehand."""

    def __init__(self) -> None:
        self._length = 0
        self._checked = current_memory().few

    def add(self, length: int) -> None:
        """Count `length` more bytes. Raises AllocationRefusal if there is no room for all bytes so far."""
        self._length += length
        if self._length > self._checked:
            check_text(self._length)
            self._checked = 2 * self._length


def current_memory() -> ProcessMemory:
    """Return the memory that limits the kernels of this context."""
    return _current.get() or _outside()


@cache
def _outside() -> ProcessMemory:
    """Return the memory limit for kernels outside a session."""
    return ProcessMemory()


def tensor_bytes(shape: Sequence[int], dtype: DataType) -> int:
    """Return the bytes of a tensor; for strings and other objects, only the bytes of the references to them."""
    return math.prod(shape) * (dtype.size or OBJECT_BYTES)


def out_of_memory(shape: Sequence[int], dtype: str, device: str = "") -> ResourceExhaustedError | InvalidArgumentError:
    """Return TensorFlow's error for a tensor that a device cannot allocate, or that is larger than any tensor can be."""
    shown = f"[{','.join(map(str, shape))}]"
    if math.prod(shape) > MAX_ELEMENTS:
        return InvalidArgumentError(f"Shape {shown} would have more than 2**63 - 1 elements")
    text = f"OOM when allocating tensor with shape{shown} and type {dtype}"
    return _with_help(ResourceExhaustedError(f"{text} on {device or _CPU} by allocator {allocator_name(device)}"))


def _with_help(error: ResourceExhaustedError) -> ResourceExhaustedError:
    error.help = (
        "a run computes with the memory of this computer, also for nodes on a GPU: the free memory, or `--memory-limit`",
    )
    return error


def allocator_name(device: str) -> str:
    """Return TensorFlow's name for a device's allocator."""
    spec = parse_runtime_name(device) if device else None
    return f"GPU_{spec.id}_bfc" if spec is not None and spec.type == "GPU" else "cpu"
