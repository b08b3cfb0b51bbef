"""Sources of an allocator's regions: the memory that a device's driver provides, simulated as ranges of addresses."""

from __future__ import annotations

from typing import Literal, Protocol

BASE_ADDRESS = 0x7F0000000000
"""Default start of the first range; the driver of a real device chooses freely."""
UNLIMITED_BYTES = 1 << 62
PAGE_BYTES = 4096


class SubAllocator(Protocol):
    """Interface of the driver that provides an allocator's regions."""

    @property
    def coalesces(self) -> bool:
        """Whether a range that begins at the end of another may be merged with it."""

    def allocate(self, num_bytes: int) -> int | None:
        """Return the address of a new range, or None if the driver refuses it."""

    def free(self, address: int, num_bytes: int) -> None:
        """Free a whole range."""


class AddressRanges:
    """A driver that allocates ranges one after another and never the same address twice.

    `supply` is the maximum number of bytes allocated at once.  Ranges lie `gap` bytes apart.  They start at `base` and go up,
    or go down from `base - gap`.
    """

    __slots__ = ("_coalesces", "_gap", "_next", "_order", "_out", "_supply")

    def __init__(
        self,
        supply: int = UNLIMITED_BYTES,
        *,
        coalesces: bool,
        base: int = BASE_ADDRESS,
        order: Literal["up", "down"] = "up",
        gap: int = 0,
    ) -> None:
        self._supply = supply
        self._coalesces = coalesces
        self._next = base
        self._order = order
        self._gap = gap
        self._out = 0

    @property
    def coalesces(self) -> bool:
        return self._coalesces

    @property
    def bytes_out(self) -> int:
        """Number of bytes that are allocated and not freed yet."""
        return self._out

    def allocate(self, num_bytes: int) -> int | None:
        if self._out + num_bytes > self._supply:
            return None
        self._out += num_bytes
        if self._order == "down":
            self._next -= num_bytes + self._gap
            return self._next
        address = self._next
        self._next += num_bytes + self._gap
        return address

    def free(self, address: int, num_bytes: int) -> None:
        self._out -= num_bytes


def gpu_memory() -> AddressRanges:
    """Make a GPU driver as TensorFlow 2.21 uses it (DeviceMemAllocator): each range is a separate region."""
    return AddressRanges(coalesces=False)


def host_memory(supply: int = UNLIMITED_BYTES) -> AddressRanges:
    """Make the host memory beneath a CPU's allocator (BasicCPUAllocator): adjoining ranges become one region."""
    return AddressRanges(supply, coalesces=True)


def mapped_memory() -> AddressRanges:
    """Make host memory whose ranges malloc maps separately.

    Each range is below the previous range, with a page between them, so ranges never adjoin.
    """
    return AddressRanges(coalesces=True, base=BASE_ADDRESS, order="down", gap=PAGE_BYTES)
