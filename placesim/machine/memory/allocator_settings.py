"""Settings of an allocator: its options, and state that it shares with other allocators of its process."""

from __future__ import annotations

from dataclasses import dataclass

from placesim.core.errors import InvalidArgumentError

DEFAULT_MAX_WASTE_BYTES = 128 << 20
"""A chunk is split if its excess over the request reaches this size, unless a fraction is set."""
MAX_FAILURE_LOGS = 10
"""Maximum number of logged failures per process."""


@dataclass(frozen=True, slots=True)
class BfcOptions:
    """Options of an allocator, with the defaults of TensorFlow's BFCAllocator::Options.

    - allow_growth: request regions as they are needed, instead of the whole limit with the first allocation.
    - allow_retry_on_failure: if there is no room, wait up to 10 s until memory is freed.
    - garbage_collection: return unused regions to the driver before an allocation fails.
    - fragmentation_fraction: the share of the limit by which a chunk may exceed the request and stay whole; 0: 128 MiB.
    """

    allow_growth: bool = True
    allow_retry_on_failure: bool = True
    garbage_collection: bool = False
    fragmentation_fraction: float = 0.0


class FailureLog:
    """Number of failures that a process has logged; its allocators share the count and its maximum."""

    __slots__ = ("logged",)

    def __init__(self) -> None:
        self.logged = 0

    @property
    def is_open(self) -> bool:
        return self.logged < MAX_FAILURE_LOGS


class TimingCounter:
    """Counter of releases (TensorFlow's SharedCounter), shared between an allocator and the users of its device."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def next(self) -> int:
        """Increment the count and return it."""
        self.value += 1
        return self.value


def max_waste_bytes(name: str, memory_limit: int, fraction: float) -> int:
    """Return the largest excess of a chunk over the requested size, in bytes.

    Raises InvalidArgumentError for a fraction of the limit that is less than one byte.
    """
    if not fraction > 0:
        return DEFAULT_MAX_WASTE_BYTES
    waste = fraction * memory_limit
    if 0 < waste < 1:
        raise InvalidArgumentError(
            f"allocator {name}: an internal fragmentation fraction of {fraction} of {memory_limit} bytes is less than a byte. "
            "TensorFlow then cuts a chunk that fits exactly into itself and an empty one, and dies "
            '("Could not find Region for 0x..."). Use 0 for the default of 128 MiB, or a fraction that comes to a byte or more'
        )
    return int(min(waste, float(1 << 63)))
