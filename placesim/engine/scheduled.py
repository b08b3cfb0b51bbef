"""A worker's part of a step whose order is fixed: its own nodes in that order, tensors from elsewhere waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placesim.engine.mail import Arrival, Limit, Mail, Position, Stop, Stopped
from placesim.engine.measured import MeasuredPart
from placesim.ops.categories import RECEIVES
from placesim.runtime.executor import Executor
from placesim.runtime.program import Program, TransferKey
from placesim.runtime.schedule import Schedule

Sender = Callable[[str, Any, Any, int], None]
"""Sends to a device, under a key, a value of a generation."""


class ScheduledPart:
    """Runs the nodes of some of a step's programs.

    `order` has pairs of program and node, `positions` where each of them stands in the order of the whole step, `is_here` which
    devices are this worker's.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        order: Sequence[tuple[int, int]],
        positions: Sequence[int],
        is_here: Callable[[str], bool],
    ) -> None:
        self._positions = positions
        receives = {}
        for (number, index), position in zip(order, positions, strict=True):
            instruction = programs[number].instructions[index]
            if instruction.node.op in RECEIVES:
                receives[instruction.key] = position
        self._rendezvous = PartRendezvous(receives, is_here, programs)
        self._executor = Executor(programs, None, Schedule(programs, order), self._rendezvous)

    @property
    def position(self) -> Position:
        """Where the node stands that runs, or that failed."""
        at = self._executor.position
        return (self._positions[at],) if 0 <= at < len(self._positions) else (-1,)

    def run(self, feeds: Mapping[int, Any], mail: Mail, send: Sender) -> dict[int, Any]:
        """Values by `_Arg` index -> values by `_Retval` index.

        Raises OpError where a node fails, and Stopped once an earlier one failed elsewhere.
        """
        self._rendezvous.begin(mail, send)
        return self._executor.run(feeds)


class PartRendezvous(dict[Any, Any]):
    """Tensors on their way between programs that run here; those from and to programs that run elsewhere go by mail."""

    def __init__(
        self, receives: Mapping[TransferKey | None, int], is_here: Callable[[str], bool], programs: Sequence[Program]
    ) -> None:
        super().__init__()
        self._measured = MeasuredPart.of(programs)
        self._receives = receives
        self._is_here = is_here
        self._arrived: dict[Any, Any] = {}

    def begin(self, mail: Mail, send: Sender) -> None:
        """A step begins."""
        self._mail = mail
        self._send = send
        self._limit: Position | None = None
        self._arrived.clear()

    def __setitem__(self, key: TransferKey, value: Any) -> None:
        if self._is_here(key[1]):
            if self._measured is not None:
                self._measured.exchange.sent(key, key)
            super().__setitem__(key, value)
        else:
            self._send(key[1], key, value, 0)

    def pop(self, key: TransferKey, *default: Any) -> Any:
        if self._is_here(key[0]):
            found = super().pop(key, *default)
            if self._measured is not None:
                self._measured.exchange.received(key, key)
            return found
        while key not in self._arrived:
            self._take(self._mail.get())
            if self._limit is not None and (self._receives[key],) > self._limit:
                raise Stopped
        return self._arrived.pop(key)

    def _take(self, found: Any) -> None:
        if isinstance(found, Arrival):
            self._arrived[found.key] = found.value
            if self._measured is not None:
                self._measured.came(found.key, found)
        elif isinstance(found, Limit):
            self._limit = found.position
        elif isinstance(found, Stop):
            raise Stopped

    def clear(self) -> None:
        super().clear()
        self._arrived.clear()
