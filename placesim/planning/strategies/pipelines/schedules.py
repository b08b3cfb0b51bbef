"""Schedules of a pipeline: the order of the passes on each device, and the share of idle time.

A pass computes one micro-batch in one stage, forward or backward. Stage s is on device s modulo the number of devices. With
interleaving, each device has several stages, called chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

GPIPE, ONE_F_ONE_B, INTERLEAVED = "gpipe", "1f1b", "interleaved"
SCHEDULES = (GPIPE, ONE_F_ONE_B, INTERLEAVED)


class Pass(NamedTuple):
    """The forward or backward computation of a micro-batch in a stage."""

    micro_batch: int
    stage: int
    is_backward: bool

    @property
    def done(self) -> str:
        """Name of the node that runs at the end of the pass, in the scope of the micro-batch."""
        return f"stage_{self.stage}/{'backward' if self.is_backward else 'forward'}_done"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A pipeline with `chunks` stages on each device.

    - `gpipe`: all forward passes, then all backward passes in reverse (Huang et al. 2019).
    - `1f1b`: forward passes until the last stage can begin, then one forward and one backward pass in turn (PipeDream-Flush,
      Narayanan et al. 2021).
    - `interleaved`: the same with several chunks on each device, so that each device begins earlier (Narayanan et al. 2021).
    """

    name: str
    devices: int
    micro_batches: int
    chunks: int = 1

    @property
    def stages(self) -> int:
        """The number of stages of all devices together."""
        return self.devices * self.chunks

    def order(self, device: int) -> Sequence[Pass]:
        """Return the passes of a device, in the order in which they run."""
        total = self.micro_batches * self.chunks
        forward, backward = ([self._nth(k, device, is_backward) for k in range(total)] for is_backward in (False, True))
        if self.name == GPIPE:
            return [*forward, *reversed(backward)]
        later = self.devices - 1 - device
        first = min(total, later if self.chunks == 1 else 2 * later + (self.chunks - 1) * self.devices)
        found = forward[:first]
        for pair in zip(forward[first:], backward, strict=False):
            found += pair
        return [*found, *backward[total - first :]]

    def _nth(self, number: int, device: int, is_backward: bool) -> Pass:
        """Return the forward or backward pass with this number on a device.

        A chunk computes N micro-batches, then the next chunk does.
        """
        group, place = divmod(number, self.stages)
        chunk, within = divmod(place, self.devices)
        if is_backward:
            chunk = self.chunks - 1 - chunk
        if self.chunks == 1:
            return Pass(number, device, is_backward)
        return Pass(group * self.devices + within, chunk * self.devices + device, is_backward)

    def alive(self, device: int) -> Iterator[Sequence[int]]:
        """After each pass of a device, yield for each stage the number of micro-batches that wait for their backward pass."""
        found = [0] * self.stages
        for own in self.order(device):
            found[own.stage] += -1 if own.is_backward else 1
            yield tuple(found)

    @property
    def ideal_idle_share(self) -> float:
        """The idle share of devices if all stages take equal time, and transfers take no time."""
        others = self.devices - 1
        return others / (self.chunks * self.micro_batches + others)

    def simulate(self, seconds: Callable[[Pass], float], transfer: Callable[[int], float] = lambda stage: 0.0) -> PipelineTimes:
        """Return the times of a step whose passes take `seconds`.

        `transfer` returns the seconds to send a tensor from a stage to the next one, or its gradient back.
        """
        waiting = [self.order(device) for device in range(self.devices)]
        next_place, free, busy = [0] * self.devices, [0.0] * self.devices, 0.0
        ends: dict[Pass, float] = {}
        left = sum(map(len, waiting))
        while left:
            before = left
            for device, order in enumerate(waiting):
                while next_place[device] < len(order):
                    own = order[next_place[device]]
                    arrival = self._arrival(own, ends, transfer)
                    if arrival is None:
                        break
                    duration = seconds(own)
                    free[device] = ends[own] = max(free[device], arrival) + duration
                    busy += duration
                    next_place[device] += 1
                    left -= 1
            assert left < before, "passes wait for each other"
        return PipelineTimes(max(free), busy / self.devices)

    def _arrival(self, own: Pass, ends: dict[Pass, float], transfer: Callable[[int], float]) -> float | None:
        """Return the time at which a pass has received its input from another stage; None if the time is not known yet."""
        source = own.stage + 1 if own.is_backward else own.stage - 1
        if not 0 <= source < self.stages:
            return 0.0
        end = ends.get(own._replace(stage=source))
        return None if end is None else end + transfer(min(source, own.stage))


class PipelineTimes(NamedTuple):
    """The seconds of a pipeline's step, and the average seconds in which a device computes."""

    seconds: float
    busy_seconds: float

    @property
    def idle_share(self) -> float:
        """The share of the time in which devices are idle: the bubble."""
        return 1.0 - self.busy_seconds / self.seconds if self.seconds else 0.0
