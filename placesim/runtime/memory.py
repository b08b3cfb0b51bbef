"""How much a run may still allocate, and TensorFlow's error where a tensor needs more.

What is free is asked of the machine when a large tensor is about to be made: its memory, and that of the control group that
the process is in.  A limit of the run's own is held against what the process has grown by since the session was opened.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from placesim.devices.names import parse_runtime_name
from placesim.dtypes import VARIANT, DType
from placesim.errors import InvalidArgumentError, ResourceExhaustedError

FEW_ELEMENTS = 1 << 20
"""Tensors of fewer elements are made without a look at the machine's memory."""
MAX_ELEMENTS = (1 << 63) - 1
OBJECT_BYTES = 8
"""Of a string, a resource or a variant: the reference to it."""
ELEMENT_BYTES = 120
"""Of an element of a tensor array or list, as the Python object that stands for it."""
_WIDEST = 16
_OVERCOMMIT_SHARE = 16
_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


class AllocationRefused(Exception):
    """A kernel was about to make a tensor that there is no room for; who runs it words the error, for its device."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        super().__init__(shape, dtype)
        self.shape = tuple(shape)
        self.dtype = dtype


class Memory:
    """What a session may allocate: `limit` bytes beside what the process had, and no more than the machine has free."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.few = FEW_ELEMENTS if limit is None else max(0, min(FEW_ELEMENTS, limit // (_WIDEST * _OVERCOMMIT_SHARE)))
        self._at_start = 0 if limit is None else _resident_bytes()

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes may be allocated."""
        if size <= self.few:
            return True
        if self.limit is not None and size > self.limit:
            return False
        if size <= FEW_ELEMENTS:
            return True
        if self.limit is not None and size > self.limit - max(0, _resident_bytes() - self._at_start):
            return False
        return size <= free_bytes()

    def check(self, shape: Sequence[int], dtype: DType) -> None:
        """Raises AllocationRefused where a tensor of this shape has no room."""
        if not self.has_room(tensor_bytes(shape, dtype)):
            raise AllocationRefused(shape, dtype.name)


_current: ContextVar[Memory | None] = ContextVar("memory", default=None)
_UNLIMITED = Memory()


@contextmanager
def serving_memory(memory: Memory) -> Iterator[None]:
    """Within, kernels that run in this context ask this memory."""
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)


def check_room(shape: Sequence[int], dtype: DType) -> None:
    """For kernels whose output's size follows from values: AllocationRefused where such a tensor has no room."""
    (_current.get() or _UNLIMITED).check(shape, dtype)


def check_elements(count: int, each: int = ELEMENT_BYTES) -> None:
    """For kernels that keep Python objects, one for each element of a list: AllocationRefused where these have no room."""
    if not (_current.get() or _UNLIMITED).has_room(count * each):
        raise AllocationRefused((count,), VARIANT.name)


def tensor_bytes(shape: Sequence[int], dtype: DType) -> int:
    """What a tensor takes; of strings and the like only the references to them."""
    return math.prod(shape) * (dtype.size or OBJECT_BYTES)


def out_of_memory(shape: Sequence[int], dtype: str, device: str = "") -> ResourceExhaustedError | InvalidArgumentError:
    """TensorFlow's error for a tensor that a device's allocator cannot make, or that no tensor can be."""
    shown = f"[{','.join(map(str, shape))}]"
    if math.prod(shape) > MAX_ELEMENTS:
        return InvalidArgumentError(f"Shape {shown} would have more than 2**63 - 1 elements")
    text = f"OOM when allocating tensor with shape{shown} and type {dtype}"
    error = ResourceExhaustedError(f"{text} on {device or _CPU} by allocator {_allocator(device)}")
    error.help = ("a run may take what the machine has free, or what `--memory-limit` says",)
    return error


def _allocator(device: str) -> str:
    spec = parse_runtime_name(device) if device else None
    return f"GPU_{spec.id}_bfc" if spec is not None and spec.type == "GPU" else "cpu"


# --- what the machine says ------------------------------------------------------------------------------------------


def free_bytes() -> int:
    """The bytes that the machine, and the process's control group, can still give; a huge number where neither tells."""
    return min(_available_bytes(), _group_bytes())


def _available_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_bytes().splitlines():
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return sys.maxsize


def _group_bytes() -> int:
    """The rest of a control group's limit, of the second version of those and of the first."""
    root = Path("/sys/fs/cgroup")
    for group, limit, used in (
        (root, "memory.max", "memory.current"),
        (root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            in_use = int((group / used).read_text()) - _cached_bytes(group)
            return max(0, int((group / limit).read_text()) - in_use)
        except (OSError, ValueError):
            continue
    return sys.maxsize


def _cached_bytes(group: Path) -> int:
    """What a control group holds of files and would give up at once."""
    lines = map(str.split, (group / "memory.stat").read_text().splitlines())
    return sum(int(words[1]) for words in lines if words[0] in ("inactive_file", "active_file"))


def _resident_bytes() -> int:
    """The memory that this process has in use; 0 where the machine does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
