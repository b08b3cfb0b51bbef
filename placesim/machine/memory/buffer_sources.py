"""Sources of device buffers: memory behind an allocator with a limit, or counted memory without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from placesim.core.errors import InvalidArgumentError
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.buffers import Buffer, OutOfMemory

MAX_BYTES = (1 << 63) - 1
"""Maximum size of a buffer: sizes are signed 64-bit numbers."""


class Clock:
    """Clock for the journals of several sources: the current `node`, and a `moment`, a number that only a recorder advances."""

    __slots__ = ("moment", "node")

    def __init__(self) -> None:
        self.node = ""
        self.moment = 0

    def now(self) -> int:
        """Return the current moment."""
        return self.moment


class JournalEntry(NamedTuple):
    """A record that a buffer was allocated (`is_made`) or freed while a node ran, at a moment of the clock."""

    buffer: Buffer
    is_made: bool
    node: str
    moment: int = 0


class DeviceSource:
    """The buffers of one device: the `limit` in bytes or None, the current use and the peak.

    `handed_out` is the number of bytes allocated since the last reset.  `live` has the buffers in use, in order of allocation.
    If `journal` is a list, it records each allocation and release for the memory curve of a step.
    """

    name: str
    limit: int | None

    def __init__(self, name: str, limit: int | None) -> None:
        self.name = name
        self.limit = limit
        self.in_use = 0
        self.peak = 0
        self.handed_out = 0
        self.live: dict[Buffer, None] = {}
        self.clock = Clock()
        self.journal: list[JournalEntry] | None = None

    def allocate(self, size: int, owner: str) -> Buffer:
        """Allocate a buffer with one reference.

        Raises OutOfMemory if there is no room, and InvalidArgumentError for an impossible size.
        """
        raise NotImplementedError

    def free(self, buffer: Buffer) -> None:
        """Free a buffer of this source."""
        del self.live[buffer]
        self.in_use -= buffer.allocated
        if self.journal is not None:
            self.journal.append(JournalEntry(buffer, False, self.clock.node, self.clock.now()))

    def _made(self, buffer: Buffer) -> Buffer:
        self.live[buffer] = None
        self.in_use += buffer.allocated
        self.handed_out += buffer.allocated
        if self.in_use > self.peak:
            self.peak = self.in_use
        if self.journal is not None:
            self.journal.append(JournalEntry(buffer, True, self.clock.node, self.clock.now()))
        return buffer

    def forget_peak(self) -> None:
        """Reset the peak to the current use."""
        self.peak = self.in_use

    def start_session(self, log: Callable[[DumpLine], object] | None) -> None:
        """Begin another session, whose `log` receives the allocator's lines."""
        self.forget_peak()
        self.journal = None


class CountedMemory(DeviceSource):
    """Memory without a limit whose use is counted, such as a host's."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None)

    def allocate(self, size: int, owner: str) -> Buffer:
        _check_size(size, owner)
        return self._made(Buffer(self, size, size, owner))


class AllocatedMemory(DeviceSource):
    """Memory behind a BFC allocator: `allocated` of a buffer is the size of its chunk, and `place` is the chunk."""

    def __init__(self, allocator: BfcAllocator, limit: int | None = None) -> None:
        """Make a source for an allocator; `limit` is the reported limit if it differs from the allocator's."""
        super().__init__(allocator.name, allocator.memory_limit if limit is None else limit)
        self.allocator = allocator

    def allocate(self, size: int, owner: str) -> Buffer:
        _check_size(size, owner)
        chunk = self.allocator.allocate(size, operation_name=owner)
        if chunk is None:
            raise OutOfMemory(size, self)
        return self._made(Buffer(self, size, chunk.size, owner, chunk))

    def start_session(self, log: Callable[[DumpLine], object] | None) -> None:
        super().start_session(log)
        self.allocator.log = log

    def free(self, buffer: Buffer) -> None:
        self.allocator.deallocate(buffer.place)
        super().free(buffer)


def _check_size(size: int, owner: str) -> None:
    if size > MAX_BYTES:
        raise InvalidArgumentError(f"{owner} would hold {size} bytes at once, more than 2**63 - 1")
