"""Source of an allocator's regions: the driver's memory of a device, simulated as ranges of addresses."""

from __future__ import annotations

from typing import Literal, Protocol

BASE_ADDRESS = 0x7F0000000000
"""Default start of the first range; the driver of a real device chooses freely."""
UNLIMITED_BYTES = 1 << 62
PAGE_BYTES = 4096


class SubAllocator(Protocol):
    """Driver interface of an allocator."""

    @property
    def coalesces(self) -> bool:
        """Whether a range that begins where another ends may be used with it as one."""

    def allocate(self, num_bytes: int) -> int | None:
        """Return the address of a new range, or None if the driver refuses it."""

    def free(self, address: int, num_bytes: int) -> None:
        """Free a whole range."""


class AddressRanges:
    """A driver that hands out ranges one after another and never the same address twice.

    `supply` is the most it has out at once, in bytes.  Ranges lie `gap` bytes apart, and go up from `base`, or down to it: the
    first one then ends a gap below it.
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
        """Number of bytes not returned yet."""
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


def gpu_memory(supply: int = UNLIMITED_BYTES) -> AddressRanges:
    """A GPU driver as TensorFlow 2.21 uses it (DeviceMemAllocator): each range is a separate region."""
    return AddressRanges(supply, coalesces=False)


def host_memory(supply: int = UNLIMITED_BYTES) -> AddressRanges:
    """The host's memory beneath an allocator of a CPU (BasicCPUAllocator): ranges that adjoin become one region."""
    return AddressRanges(supply, coalesces=True)


def mapped_memory() -> AddressRanges:
    """Host memory whose ranges malloc maps separately: each lies below the previous one and a page apart, so none adjoin."""
    return AddressRanges(coalesces=True, base=BASE_ADDRESS, order="down", gap=PAGE_BYTES)
