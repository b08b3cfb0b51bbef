"""Estimates of the step times of many similar assignments at once, in arrays with a column for each assignment.

A simulation processes events in the order of time, which differs between assignments. An estimate instead takes the tasks in
one fixed order for all assignments: the order in which they start in the simulation of a similar assignment. So numpy can
compute all assignments together, and an estimate takes a small part of the time of a simulation. It is not exact: a stream has
at most one idle gap that later tasks may fill, transfers do not share links, and the cores of a host are one queue. Short tasks
without inputs, such as constants, take no time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from placesim.machine.timelines.bandwidth_sharing import byte_seconds, route_latency
from placesim.machine.timelines.workload import Cores
from placesim.planning.problem import PlanningProblem

SHORT = 1e-3
"""Share of the work up to which a task without inputs counts as short."""
_Array = np.ndarray


class ScheduleEstimates:
    """Estimates step times of assignments on the machine of a problem's layout."""

    def __init__(self, problem: PlanningProblem) -> None:
        layout, tasks, count = problem.layout, problem.tasks, len(problem.devices)
        assert layout is not None
        kinds = [device.kind for device in problem.devices]
        hosts = layout.hosts or layout.places
        cores = [float(resource.cores) if isinstance(resource, Cores) else 0.0 for resource in layout.resources]
        self._resources = len(cores)
        # the memory of an output or an input, by device: the device's own, or that of its host
        is_gpu = np.array([hosts[device] != layout.places[device] for device in range(count)])
        memories = np.stack([np.arange(count), np.arange(count) + count * is_gpu])
        routes = layout.memory_routes or layout.routes
        most = max([1, *(len(streams) for row in routes for _, streams in row)])
        self.delays, self.paces = np.zeros((2, len(routes), len(routes)))
        # the streams of each transfer; the last number stands for none
        self.no_port = len(cores)
        self.ports = np.full((most, len(routes), len(routes)), self.no_port)
        for source, row in enumerate(routes):
            for target, (links, streams) in enumerate(row):
                self.delays[source, target] = route_latency(links, layout.links)
                self.paces[source, target] = byte_seconds(links, layout.links)
                self.ports[: len(streams), source, target] = streams
        seconds = np.array([[task.seconds[kind] for kind in kinds] for task in tasks])
        launches = np.array([[task.launches[kind] if task.launches else 0.0 for kind in kinds] for task in tasks])
        self._kept = self._long_tasks(problem, seconds, launches)
        # the tasks in a row of all arrays, and the row of each task that has one
        tasks = tuple(tasks[task] for task in self._kept)
        self._row_of = {int(task): row for row, task in enumerate(self._kept)}
        self._seconds, launches = seconds[self._kept], launches[self._kept]
        self.makes = np.array([task.makes for task in tasks])
        # by task and device: the resource that runs the task, whether it is a stream, and times
        runs_on_host = np.array([task.runs_on_host for task in tasks], bool)[:, None]
        self._places = np.where(runs_on_host, np.array(hosts), np.array(layout.places))
        self._streamed: _Array = np.array([not cores[place] for place in layout.places]) & ~runs_on_host
        self._launches = launches * self._streamed
        asked = np.array([[task.cores[kind] if task.cores else 1 for kind in kinds] for task in tasks])
        # a task on cores occupies its share of them
        shares = np.where(self._streamed, 1.0, asked / np.maximum(1.0, np.array(cores))[self._places])
        self._busy = self._seconds * shares
        # reads: the task that is read, its reader, and whether a GPU reads the output from host memory
        reads = [
            (self._row_of[source], row, source in task.host_inputs)
            for row, task in enumerate(tasks)
            for source in problem.inputs[self._kept[row]]
            if source in self._row_of
        ]
        self.sources, self._readers, from_host = np.array(reads, np.intp).reshape(-1, 3).T
        self._reads: list[list[tuple[int, int]]] = [[] for _ in tasks]
        for number, (source, reader, _) in enumerate(reads):
            self._reads[reader].append((number, source))
        # the memory of each output, and that of the reader for each read, by device
        self._owns, self._reading = memories[np.array([task.on_host for task in tasks], np.intp)], memories[from_host]

    def _long_tasks(self, problem: PlanningProblem, seconds: _Array, launches: _Array) -> _Array:
        """Return the tasks that are estimated: all but short ones without inputs, with their launches and transfers."""
        group_of = problem.group_of
        alone = np.where(np.isfinite(seconds), seconds + launches, 0.0).max(axis=1, initial=0.0)
        short = SHORT * float(seconds.min(axis=1, initial=math.inf).sum())
        delay, pace = (float(rows.max(initial=0.0)) for rows in (self.delays, self.paces))
        found = []
        for task, readers in enumerate(problem.readers):
            is_sent = any(group_of[reader] != group_of[task] for reader in readers)
            moving = delay + pace * problem.tasks[task].makes if is_sent else 0.0
            if problem.inputs[task] or alone[task] + moving > short:
                found.append(task)
        return np.array(found, np.intp)

    def seconds(self, devices: _Array, order: Sequence[int]) -> _Array:
        """Return the estimated step time of each assignment of `devices` `[tasks, assignments]`.

        `order` has the tasks in the order in which they are taken, which must be a topological order.
        """
        devices = devices[self._kept]
        count, columns = devices.shape[1], np.arange(devices.shape[1])
        at_device = devices + np.arange(len(devices))[:, None] * self._seconds.shape[1]
        owns, places, streamed = (rows.take(at_device) for rows in (self._owns, self._places, self._streamed))
        taken, used, launches = (rows.take(at_device) for rows in (self._seconds, self._busy, self._launches))
        is_launched, has_work = np.logical_or.reduce(streamed, axis=1), np.logical_or.reduce(taken, axis=1)
        slots = places * count + columns
        # for each read: the memory of the reader, whether that is another one, and whether both tasks run on one stream
        memories = self._reading.take(devices[self._readers] + np.arange(len(self._readers))[:, None] * self._seconds.shape[1])
        is_far: _Array = memories != owns[self.sources]
        is_near: _Array = ~is_far & (places[self.sources] == places[self._readers]) & streamed[self.sources]
        any_far, any_near = (np.logical_or.reduce(rows, axis=1) for rows in (is_far, is_near))
        all_near = np.logical_and.reduce(is_near, axis=1)
        moves = _Moves(self, memories, is_far, owns)
        memories = memories * count + columns
        # by resource: the time from which on it is free, and the longest idle gap before
        free, gap_begin, gap_end = np.zeros((3, self._resources * count))
        available, idle_from, idle_until = np.zeros((3, count))
        ends, joined = np.zeros((2, *devices.shape))
        for task in (self._row_of[number] for number in order if number in self._row_of):
            ready, end = joined[task], ends[task]
            for read, source in self._reads[task]:
                if all_near[read]:
                    there = joined[source]
                else:
                    there = np.where(is_near[read], joined[source], ends[source]) if any_near[read] else ends[source]
                    if any_far[read]:
                        there = np.where(is_far[read], moves.arrived[source].take(memories[read]), there)
                np.maximum(ready, there, out=ready)
            if is_launched[task]:
                np.add(ready, launches[task], out=ready)
            if not has_work[task] and not self._reads[task]:
                end[:] = ready  # it waits for nothing
            else:
                at, busy = slots[task], used[task]
                # a mode other than the default avoids a copy
                free.take(at, out=available, mode="clip")
                gap_begin.take(at, out=idle_from, mode="clip")
                gap_end.take(at, out=idle_until, mode="clip")
                start, begin = np.maximum(ready, available), np.maximum(ready, idle_from)
                after, earlier = start + busy, begin + busy
                fits, is_longer = earlier <= idle_until, start - available > idle_until - idle_from
                if np.count_nonzero(is_longer):
                    gap_begin[at] = np.where(is_longer, available, idle_from)
                    gap_end[at] = np.where(is_longer, start, idle_until)
                if np.count_nonzero(fits):
                    gap_begin[at] = np.where(fits, earlier, gap_begin[at])
                    start, after = np.where(fits, begin, start), np.where(fits, available, after)
                free[at] = after
                np.add(start, taken[task], out=end)
            moves.leave(task, end)
        found: _Array = np.max(ends, axis=0, initial=0.0)
        return found


class _Moves:
    """The transfers of several assignments, each of a task's output to a memory.

    `arrived` has the times of arrival by memory and assignment, for each task whose output has left.
    """

    def __init__(self, estimates: ScheduleEstimates, memories: _Array, is_far: _Array, owns: _Array) -> None:
        """`memories` has the reader's memory of each read, and `is_far` says whether that differs from the output's memory.

        `owns` has the memory of each output.
        """
        count, memory_count = owns.shape[1], len(estimates.delays)
        is_moved = np.zeros((*owns.shape, memory_count), bool)
        reads, columns = np.nonzero(is_far)
        is_moved[estimates.sources[reads], columns, memories[reads, columns]] = True
        tasks, columns, targets = np.nonzero(is_moved)
        # transfers of one output to several memories of an assignment follow each other
        numbers, is_first = np.arange(len(tasks)), np.diff(tasks * count + columns, prepend=-1) != 0
        turns = tasks * memory_count + numbers - np.maximum.accumulate(np.where(is_first, numbers, 0))
        rank = np.argsort(turns, kind="stable")
        tasks, self._columns, targets, turns = tasks[rank], columns[rank], targets[rank], turns[rank]
        sources = owns[tasks, self._columns]
        self._seconds = estimates.delays[sources, targets] + estimates.makes[tasks] * estimates.paces[sources, targets]
        self._slots = estimates.ports[:, sources, targets] * count + self._columns
        self._places = targets * count + self._columns
        self._size = memory_count * count
        self._free = np.zeros((estimates.no_port + 1) * count)
        self._unlimited = self._free[-count:]
        # by task: the parts of the rows above, one for each turn
        self._parts: dict[int, list[slice]] = {}
        begins = np.flatnonzero(np.diff(turns, prepend=-1))
        for begin, end in pairwise([*begins.tolist(), len(tasks)]):
            self._parts.setdefault(int(tasks[begin]), []).append(slice(begin, end))
        self.arrived: dict[int, _Array] = {}

    def leave(self, task: int, ends: _Array) -> None:
        """Move the output of a task that ends at these times, and occupy the ports of the transfers."""
        parts = self._parts.get(task)
        if parts is None:
            return
        arrived = self.arrived[task] = np.zeros(self._size)
        for part in parts:
            times, slots = ends[self._columns[part]], self._slots[:, part]
            for port in slots:
                np.maximum(times, self._free[port], out=times)
            times += self._seconds[part]
            for port in slots:
                self._free[port] = times
            self._unlimited[:] = 0.0
            arrived[self._places[part]] = times
