"""Estimates of the step times of many similar assignments at once, in arrays with a column for each assignment.

A simulation processes events in the order of time, which differs between assignments. An estimate instead takes the tasks in
one fixed order for all assignments: the order in which they start in the simulation of a similar assignment. So numpy can
compute all assignments together, and an estimate takes a small part of the time of a simulation. It is not exact: a stream has
at most one idle gap that later tasks may fill, transfers do not share links, and the cores of a host are one queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from placesim.machine.timelines.bandwidth_sharing import byte_seconds, route_latency
from placesim.machine.timelines.workload import Cores
from placesim.planning.problem import PlanningProblem

_Array = np.ndarray


class ScheduleEstimates:
    """Estimates step times of assignments on the machine of a problem's layout."""

    def __init__(self, problem: PlanningProblem) -> None:
        layout, tasks, count = problem.layout, problem.tasks, len(problem.devices)
        assert layout is not None
        self._problem = problem
        kinds = [device.kind for device in problem.devices]
        hosts = layout.hosts or layout.places
        cores = [float(resource.cores) if isinstance(resource, Cores) else 0.0 for resource in layout.resources]
        # by task and device: the resource that runs the task, whether it is a stream, and times
        runs_on_host = np.array([task.runs_on_host for task in tasks], bool)[:, None]
        self._places = np.where(runs_on_host, np.array(hosts), np.array(layout.places))
        self._streamed: _Array = np.array([not cores[place] for place in layout.places]) & ~runs_on_host
        self._seconds = np.array([[task.seconds[kind] for kind in kinds] for task in tasks])
        self._launches = np.array([[task.launches[kind] if task.launches else 0.0 for kind in kinds] for task in tasks])
        asked = np.array([[task.cores[kind] if task.cores else 1 for kind in kinds] for task in tasks])
        # a task on cores occupies its share of them
        shares = np.where(self._streamed, 1.0, asked / np.maximum(1.0, np.array(cores))[self._places])
        self._busy = self._seconds * shares
        self._resources = len(cores)
        # the memory of an output or an input, by device: the device's own, or that of its host
        is_gpu = np.array([hosts[device] != layout.places[device] for device in range(count)])
        self._memories = np.stack([np.arange(count), np.arange(count) + count * is_gpu])
        routes = layout.memory_routes or layout.routes
        most = max([1, *(len(streams) for row in routes for _, streams in row)])
        self._delays, self._paces = np.zeros((2, len(routes), len(routes)))
        # the streams of each transfer; the last number stands for none
        self._no_port = len(cores)
        self._ports = np.full((most, len(routes), len(routes)), self._no_port)
        for source, row in enumerate(routes):
            for target, (links, streams) in enumerate(row):
                self._delays[source, target] = route_latency(links, layout.links)
                self._paces[source, target] = byte_seconds(links, layout.links)
                self._ports[: len(streams), source, target] = streams
        # reads: the task that is read, its reader, and whether a GPU reads the output from host memory
        reads = [(source, task) for task, sources in enumerate(problem.inputs) for source in sources]
        self._sources, self._readers = np.array(reads, np.intp).reshape(-1, 2).T
        self._from_host = np.array([source in tasks[task].host_inputs for source, task in reads], np.intp)
        self._reads: list[list[tuple[int, int]]] = [[] for _ in tasks]
        for number, (source, task) in enumerate(reads):
            self._reads[task].append((number, source))
        self._on_host = np.array([task.on_host for task in tasks], np.intp)

    def seconds(self, devices: _Array, order: Sequence[int]) -> _Array:
        """Return the estimated step time of each assignment of `devices` `[tasks, assignments]`.

        `order` has the tasks in the order in which they are taken, which must be a topological order.
        """
        count, columns = devices.shape[1], np.arange(devices.shape[1])
        owns = self._memories[self._on_host[:, None], devices]
        places = np.take_along_axis(self._places, devices, axis=1)
        streamed = np.take_along_axis(self._streamed, devices, axis=1)
        launches = np.take_along_axis(self._launches, devices, axis=1) * streamed
        taken, used = (np.take_along_axis(rows, devices, axis=1) for rows in (self._seconds, self._busy))
        is_launched = np.logical_or.reduce(streamed, axis=1)
        slots = places * count + columns
        # for each read: the memory of the reader, whether that is another one, and whether both tasks run on one stream
        memories = self._memories[self._from_host[:, None], devices[self._readers]]
        is_far: _Array = memories != owns[self._sources]
        is_near: _Array = ~is_far & (places[self._sources] == places[self._readers]) & streamed[self._sources]
        any_far, any_near = (np.logical_or.reduce(rows, axis=1) for rows in (is_far, is_near))
        all_near = np.logical_and.reduce(is_near, axis=1)
        moves = self._moves(memories, is_far)
        # by resource: the time from which on it is free, and the longest idle gap before
        free, gap_begin, gap_end = np.zeros((3, self._resources * count))
        ports = np.zeros((self._no_port + 1, count))
        ends, joined = np.zeros((2, *devices.shape))
        arrived: dict[int, _Array] = {}
        for task in order:
            ready = np.zeros(count)
            for read, source in self._reads[task]:
                if all_near[read]:
                    there = joined[source]
                else:
                    there = np.where(is_near[read], joined[source], ends[source]) if any_near[read] else ends[source]
                    if any_far[read]:
                        there = np.where(is_far[read], arrived[source][memories[read], columns], there)
                np.maximum(ready, there, out=ready)
            if is_launched[task]:
                ready += launches[task]
                joined[task] = ready
            at, busy = slots[task], used[task]
            available, idle_from, idle_until = free[at], gap_begin[at], gap_end[at]
            start, begin = np.maximum(ready, available), np.maximum(ready, idle_from)
            fits = begin + busy <= idle_until
            is_longer = start - available > idle_until - idle_from
            gap_begin[at] = np.where(fits, begin + busy, np.where(is_longer, available, idle_from))
            gap_end[at] = np.where(is_longer, start, idle_until)
            free[at] = np.where(fits, available, start + busy)
            np.add(np.where(fits, begin, start), taken[task], out=ends[task])
            if task in moves:
                arrived[task] = self._move(task, moves[task], owns[task], ends[task], ports)
        found: _Array = np.max(ends, axis=0, initial=0.0)
        return found

    def _moves(self, memories: _Array, is_far: _Array) -> dict[int, dict[int, _Array]]:
        """Return, for each task with a moved output and each memory, the assignments that move the output there.

        For each read, `memories` has the reader's memory, and `is_far` says whether this differs from the output's memory.
        """
        found: dict[int, dict[int, _Array]] = {}
        for memory in range(len(self._delays)):
            is_moved = is_far & (memories == memory)
            for read in np.flatnonzero(is_moved.any(axis=1)):
                row = found.setdefault(int(self._sources[read]), {})
                row[memory] = row[memory] | is_moved[read] if memory in row else is_moved[read]
        return {task: {memory: np.flatnonzero(who) for memory, who in row.items()} for task, row in found.items()}

    def _move(self, task: int, moves: Mapping[int, _Array], own: _Array, ends: _Array, ports: _Array) -> _Array:
        """Return the times `[memory, assignment]` at which a task's output arrives, and occupy the ports of its transfers."""
        found = np.full((len(self._delays), len(own)), np.inf)
        for memory, who in moves.items():
            source, leave = own[who], ends[who]
            for port in self._ports:
                leave = np.maximum(leave, ports[port[source, memory], who])
            arrive = leave + self._delays[source, memory] + self._problem.tasks[task].makes * self._paces[source, memory]
            for port in self._ports:
                ports[port[source, memory], who] = arrive
            ports[self._no_port] = 0.0
            found[memory, who] = arrive
        return found
