"""Event simulation of dependent tasks on streams, cores and links, which determines their start and end times.

A task is ready when its last input has ended.  Ready tasks run in order of arrival; simultaneous tasks in order of their
numbers.  Running tasks are not interrupted.  Times are seconds from the beginning. Times whose relative difference is below
`MOMENT` count as equal: sums of the same times in another order or unit differ by less, and must not change the order of tasks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from placesim.core.process.gc_pause import collector_paused
from placesim.core.process.progress import report_stage
from placesim.machine.timelines.bandwidth_sharing import Link, SharedLinks, Traffic
from placesim.machine.timelines.compiled_workload import SENT, SHARED, WorkloadPlan, make_plan
from placesim.machine.timelines.timeline import ResourceUsage, WorkloadTimeline
from placesim.machine.timelines.workload import NOWHERE, CallingThread, Cores, LinkTransfer, Resource, Task

MOMENT = 2.0**-40
LINKS = -1
"""Event of a change on the links.  Event -2 - r is a change on the cores of resource r; the event of a phase is its number."""


def simulate(
    tasks: Sequence[Task | LinkTransfer], resources: Sequence[Resource] = (), links: Sequence[Link] = ()
) -> WorkloadTimeline:
    """Simulate a workload and return its timeline.  Raises InvalidArgumentError for invalid figures and cyclic tasks."""
    with collector_paused():
        return simulate_plan(make_plan(tasks, resources, links))


def simulate_plan(plan: WorkloadPlan) -> WorkloadTimeline:
    """Simulate a plan and return its timeline.  Raises InvalidArgumentError for invalid link figures and sizes."""
    with collector_paused():
        loop = _Loop(plan)
        with report_stage("simulating", loop.look):
            loop.run()
        return loop.timeline()


def plan_seconds(plan: WorkloadPlan) -> float:
    """Return the duration of a whole plan in seconds.  Raises InvalidArgumentError as `simulate_plan` does."""
    with collector_paused():
        loop = _Loop(plan)
        with report_stage("simulating", loop.look):
            loop.run()
        return loop.seconds()


class _CrowdedCores:
    """Tasks on cores that may be oversubscribed; all of them proceed at the same `speed`.

    At time `at`, each task has run for `done` of its seconds since the cores were last idle.  `due` is a heap with the value of
    `done` at which each task ends.
    """

    __slots__ = ("at", "cores", "demand", "done", "due", "next_end", "speed")

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.due: list[tuple[float, int, int]] = []
        self.demand = 0
        self.speed = 1.0
        self.done = 0.0
        self.at = 0.0
        self.next_end = math.inf

    def begin(self, time: float, phase: int, seconds: float, asked: int) -> None:
        """Start a task next to the running ones; it requests `asked` cores."""
        if self.due:
            if time > self.at:
                self.done += (time - self.at) * self.speed
        else:
            self.done = 0.0
        self.at = time
        heappush(self.due, (self.done + seconds, phase, asked))
        self._ask(asked)

    def end(self, until: float) -> list[tuple[float, int]]:
        """Return the time and phase of each task that ends at `until` or earlier; no task may begin in the meantime."""
        ended = []
        while self.due and (time := self.end_of_first()) <= until:
            self.done, phase, asked = heappop(self.due)
            self.at = time
            self._ask(-asked)
            ended.append((time, phase))
        return ended

    def end_of_first(self) -> float:
        """Return the time at which the next task ends, if no other task begins earlier."""
        return self.at + max(0.0, self.due[0][0] - self.done) / self.speed if self.due else math.inf

    def _ask(self, cores: int) -> None:
        self.demand += cores
        self.speed = self.cores / self.demand if self.demand > self.cores else 1.0


def _crowded_cores(plan: WorkloadPlan) -> list[_CrowdedCores | None]:
    """Return for each resource the cores that it uses if their tasks may request more than exist, else None."""
    asked = [
        it.threads * most if isinstance(it, Cores) else 0 for it, most in zip(plan.resources, plan.most_asked, strict=True)
    ]
    for it, most in zip(plan.resources, plan.most_asked, strict=True):
        if isinstance(it, CallingThread):
            asked[it.cores] += most
    found = [
        _CrowdedCores(it.cores) if isinstance(it, Cores) and most > it.cores else None
        for it, most in zip(plan.resources, asked, strict=True)
    ]
    return [found[it.cores] if isinstance(it, CallingThread) else found[n] for n, it in enumerate(plan.resources)]


class _Loop:
    """A running simulation of a plan, in columns by phase and by resource.

    For each resource, `free` is the number of further tasks that can start, and `since` the time from which on it is busy.
    """

    def __init__(self, plan: WorkloadPlan) -> None:
        self.plan = plan
        self.shared = SharedLinks(plan.links)
        phases = len(plan.places)
        self.missing = plan.missing.copy()
        self.waited_for = [NOWHERE] * phases
        self.starts = [math.nan] * phases
        self.ends = [math.nan] * phases
        self.queued_at: dict[int, float] = {}
        self.room = [it.threads if isinstance(it, Cores) else 1 for it in plan.resources]
        self.free = self.room.copy()
        self.crowded = _crowded_cores(plan)
        self.queues: list[deque[int]] = [deque() for _ in plan.resources]
        self.ended_last = [NOWHERE] * len(plan.resources)
        self.since = [0.0] * len(plan.resources)
        self.busy_seconds = [0.0] * len(plan.resources)
        self.events: list[tuple[float, int]] = []
        self.links_change = math.inf
        self.links_changed = False
        self.now = 0.0

    def look(self) -> tuple[int, int]:
        """Return the numbers of begun phases and of all phases, for progress displays."""
        return sum(start == start for start in self.starts), len(self.starts)  # the start of a phase that has not begun is NaN

    def run(self) -> None:
        """Process the events, moment after moment, until none is left."""
        plan, count = self.plan, self.plan.count
        places, seconds, consumers = plan.places, plan.seconds, plan.consumers
        missing, waited_for, starts, ends = self.missing, self.waited_for, self.starts, self.ends
        queues, room, free, since, crowded = self.queues, self.room, self.free, self.since, self.crowded
        events, queued_at, ended_last, busy_seconds = self.events, self.queued_at, self.ended_last, self.busy_seconds
        ready = plan.without_inputs()
        ended: list[int] = []
        while True:
            now = self.now
            # queued phases get freed resources before phases that have become ready at this moment
            for phase in ended:
                place = places[phase]
                if place >= 0:
                    ended_last[place] = phase
                    free[place] += 1
                    if free[place] == room[place]:
                        busy_seconds[place] += now - since[place]
                    if queues[place] or crowded[place] is not None:
                        self._serve(place)
                elif place == SENT:
                    self._arrive(phase)
            if len(ready) > 1:
                ready.sort(key=lambda phase: phase % count)
            for phase in ready:
                place = places[phase]
                if place == SENT:
                    self._depart(phase)
                    continue
                if place >= 0:
                    if not free[place] or queues[place]:
                        queued_at[phase] = now
                        queues[place].append(phase)
                        continue
                    if free[place] == room[place]:
                        since[place] = now
                    free[place] -= 1
                    cores = crowded[place]
                    if cores is not None:
                        starts[phase] = now
                        cores.begin(now, phase, seconds[phase], plan.asked[phase])
                        self._watch_cores(place, cores)
                        continue
                starts[phase] = now
                heappush(events, (now + seconds[phase], phase))
            if self.links_changed:
                self._watch_links()
            if not events:
                break
            time, event = heappop(events)
            limit = time * (1 + MOMENT)
            ended, ready = [], []
            while True:
                if event >= 0:
                    ends[event] = time
                    ended.append(event)
                else:
                    time = self._change(event, time, limit, ended)
                if time > now:
                    now = time
                if not events or events[0][0] > limit:
                    break
                time, event = heappop(events)
            self.now = now
            for phase in ended:
                if phase >= count:
                    waited_for[phase - count] = phase
                    ready.append(phase - count)
                for consumer in consumers[phase]:
                    left = missing[consumer] - 1
                    missing[consumer] = left
                    if not left:
                        waited_for[consumer] = phase
                        ready.append(consumer)

    def _serve(self, place: int) -> None:
        """Start tasks waiting for a resource while it has room."""
        queue, free, now, plan = self.queues[place], self.free, self.now, self.plan
        cores = self.crowded[place]
        while queue and free[place]:
            phase = queue[0]
            if plan.places[phase] == SENT:
                if not self._depart_in_turn(phase):
                    break
                continue
            if free[place] == self.room[place]:
                self.since[place] = now
            free[place] -= 1
            queue.popleft()
            self.starts[phase] = now
            if self.queued_at.pop(phase) < now:
                self.waited_for[phase] = self.ended_last[place]
            if cores is None:
                heappush(self.events, (now + plan.seconds[phase], phase))
            else:
                cores.begin(now, phase, plan.seconds[phase], plan.asked[phase])
        if cores is not None:
            self._watch_cores(place, cores)

    def _watch_cores(self, place: int, cores: _CrowdedCores) -> None:
        time = cores.end_of_first()
        if time != cores.next_end:
            cores.next_end = time
            if time < math.inf:
                heappush(self.events, (time, -2 - place))

    def _depart(self, phase: int) -> None:
        """Send a ready transfer, or queue it at its streams until all are free."""
        streams = self.plan.streams[phase]
        if all(self.free[stream] and not self.queues[stream] for stream in streams):
            self._send(phase, streams)
            return
        self.queued_at[phase] = self.now
        for stream in streams:
            self.queues[stream].append(phase)
        self._depart_in_turn(phase)

    def _depart_in_turn(self, phase: int) -> bool:
        """Send a transfer if it is first in the queues of all its streams and these are free; return whether it was sent."""
        free, queues, streams = self.free, self.queues, self.plan.streams[phase]
        for stream in streams:
            if not free[stream] or queues[stream][0] != phase:
                return False
        for stream in streams:
            queues[stream].popleft()
        if self.queued_at.pop(phase) < self.now:
            last = [self.ended_last[stream] for stream in streams]
            self.waited_for[phase] = max([before for before in last if before != NOWHERE], key=self.ends.__getitem__)
        self._send(phase, streams)
        return True

    def _send(self, phase: int, streams: Sequence[int]) -> None:
        """Reserve the streams of a transfer, and start it."""
        for stream in streams:
            self.free[stream] = 0
            self.since[stream] = self.now
        self.starts[phase] = self.now
        seconds = self.plan.seconds[phase]
        if seconds != SHARED:
            heappush(self.events, (self.now + seconds, phase))
            return
        transfer = self.plan.transfer(phase)
        self.shared.begin(self.now, phase, transfer.bytes, transfer.route)
        self.links_changed = True

    def _arrive(self, phase: int) -> None:
        """Free the streams of a transfer that has ended, and start the tasks that wait for them."""
        streams = self.plan.streams[phase]
        for stream in streams:
            self.ended_last[stream] = phase
            self.free[stream] = 1
            self.busy_seconds[stream] += self.now - self.since[stream]
        for stream in streams:
            if self.queues[stream]:
                self._serve(stream)

    def _watch_links(self) -> None:
        self.links_changed = False
        time = self.shared.next_change()
        if time != self.links_change:
            self.links_change = time
            if time < math.inf:
                heappush(self.events, (time, LINKS))

    def _change(self, event: int, time: float, limit: float, ended: list[int]) -> float:
        """Collect the phases that end by `limit` on links or on crowded cores. Return the time of the last change, or 0."""
        if event == LINKS:
            if time != self.links_change:
                return 0.0
            finished = self.shared.advance(limit)
            last = self.shared.now
            self.links_change = math.inf
            self.links_changed = True
        else:
            cores = self.crowded[-2 - event]
            if cores is None or time != cores.next_end:
                return 0.0
            finished = cores.end(limit)
            last = cores.at
            cores.next_end = math.inf
        for time, phase in finished:
            self.ends[phase] = time
            ended.append(phase)
        return last

    def seconds(self) -> float:
        """Return the end of the last phase in seconds."""
        return max(self.ends[: self.plan.count], default=0.0)

    def timeline(self) -> WorkloadTimeline:
        """Return the resulting timeline."""
        plan, count = self.plan, self.plan.count
        launched = [place != NOWHERE for place in plan.places[count:]]
        runs = self.starts[:count]
        _, core_seconds = plan.work()
        return WorkloadTimeline(
            seconds=self.seconds(),
            starts=tuple(runs),
            ends=tuple(self.ends[:count]),
            launch_starts=tuple(self.starts[count + i] if has else runs[i] for i, has in enumerate(launched)),
            launch_ends=tuple(self.ends[count + i] if has else runs[i] for i, has in enumerate(launched)),
            usage=tuple(
                ResourceUsage(busy, spent if isinstance(resource, Cores) else busy)
                for busy, spent, resource in zip(self.busy_seconds, core_seconds, plan.resources, strict=True)
            ),
            traffic=tuple(
                Traffic(alone.bytes + met.bytes, alone.busy_seconds + met.busy_seconds)
                for alone, met in zip(plan.traffic(), self.shared.traffic(), strict=True)
            ),
            waited_for=tuple(self.waited_for),
        )
