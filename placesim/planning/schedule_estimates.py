"""Estimates of the step times of many similar assignments at once, in arrays with a column for each assignment.

A simulation processes events in the order of time, which differs between assignments. An estimate instead takes the tasks in
one fixed order for all assignments: the order in which they start in the simulation of a similar assignment. So numpy can
compute all assignments together, and an estimate takes a small part of the time of a simulation. It is not exact: a stream has
at most one idle gap that later tasks may fill, transfers do not share links, and the cores of a host are one queue.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.machine.timelines.bandwidth_sharing import byte_seconds, route_latency
from placesim.machine.timelines.workload import Cores
from placesim.planning.problem import PlanningProblem

_Array = np.ndarray


class ScheduleEstimates:
    """Estimates step times of assignments on the machine of a problem's layout."""

    def __init__(self, problem: PlanningProblem) -> None:
        layout, count = problem.layout, len(problem.devices)
        assert layout is not None
        self._problem = problem
        kinds = [device.kind for device in problem.devices]
        tasks = problem.tasks
        self._resources = layout.resources
        hosts = layout.hosts or layout.places
        is_stream = [not isinstance(layout.resources[place], Cores) for place in layout.places]
        # by task and device: the resource that runs the task, and whether it is a stream
        places, on_hosts = np.array(layout.places), np.array(hosts)
        runs_on_host = np.array([task.runs_on_host for task in tasks])
        self._places = np.where(runs_on_host[:, None], on_hosts, places)
        self._streamed = np.array(is_stream) & ~runs_on_host[:, None]
        self._seconds = np.array([[task.seconds[kind] for kind in kinds] for task in tasks])
        self._launches = np.array([[task.launches[kind] if task.launches else 0.0 for kind in kinds] for task in tasks])
        cores = np.array([[task.cores[kind] if task.cores else 1 for kind in kinds] for task in tasks])
        total = np.array([float(it.cores) if isinstance(it, Cores) else 1.0 for it in layout.resources])
        # the seconds for which a task occupies its resource
        self._busy = self._seconds * np.where(self._streamed, 1.0, cores / total[self._places])
        # the memory of an output or an input, by device: the device's own, or that of its host
        is_gpu = np.array([bool(layout.hosts) and layout.hosts[device] != layout.places[device] for device in range(count)])
        self._memories = np.stack([np.arange(count), np.arange(count) + count * is_gpu])
        routes = layout.memory_routes or layout.routes
        size = len(routes)
        self._delay, self._pace = np.zeros((size, size)), np.zeros((size, size))
        most = max([1, *(len(streams) for row in routes for _, streams in row)])
        self._no_port = len(layout.resources)
        self._ports = np.full((most, size, size), self._no_port)
        for source, row in enumerate(routes):
            for target, (links, streams) in enumerate(row):
                self._delay[source, target] = route_latency(links, layout.links)
                self._pace[source, target] = byte_seconds(links, layout.links)
                self._ports[: len(streams), source, target] = streams
        self._size = size
        # reads, by the task that is read
        rows = [(source, reader) for source, readers in enumerate(problem.readers) for reader in readers]
        self._read_sources, self._readers = (
            (np.array(column, np.intp) for column in zip(*rows, strict=True))
            if rows
            else (np.zeros(0, np.intp), np.zeros(0, np.intp))
        )
        self._from_host = np.array([source in tasks[reader].host_inputs for source, reader in rows], np.intp)
        self._on_host = np.array([task.on_host for task in tasks], np.intp)
        self._host_reads = [
            [int(source in tasks[task].host_inputs) for source in sources] for task, sources in enumerate(problem.inputs)
        ]

    def seconds(self, devices: _Array, order: Sequence[int]) -> _Array:
        """Return the estimated step time of each assignment of `devices` `[tasks, assignments]`.

        `order` has the tasks in the order in which they are taken, which must be a topological order.
        """
        count = devices.shape[1]
        columns = np.arange(count)
        memories = self._memories
        owns = memories[self._on_host[:, None], devices]
        places = np.take_along_axis(self._places, devices, axis=1)
        streamed = np.take_along_axis(self._streamed, devices, axis=1)
        seconds = np.take_along_axis(self._seconds, devices, axis=1)
        launches = np.take_along_axis(self._launches, devices, axis=1) * streamed
        busy = np.take_along_axis(self._busy, devices, axis=1)
        flat_places = places * count + columns
        moved = self._moves(devices, owns)
        free = np.zeros(len(self._resources) * count)
        gap_begin, gap_end = np.zeros_like(free), np.zeros_like(free)
        ports = np.zeros((self._no_port + 1, count))
        shape = (len(self._problem.tasks), count)
        ends, joined = np.zeros(shape), np.zeros(shape)
        arrived: dict[int, _Array] = {}
        inputs_of, tasks, host_reads = self._problem.inputs, self._problem.tasks, self._host_reads
        any_streamed = streamed.any(axis=1)
        last = np.zeros(count)
        maximum, where = np.maximum, np.where
        for task in order:
            device, place = devices[task], places[task]
            ready = np.zeros(count)
            for source, is_from_host in zip(inputs_of[task], host_reads[task], strict=True):
                there = ends[source]
                if any_streamed[source] and any_streamed[task]:
                    same = (places[source] == place) & streamed[source]
                    there = where(same, joined[source], there)
                far = arrived.get(source)
                if far is not None:
                    memory = memories[is_from_host][device]
                    there = where(memory == owns[source], there, far[memory, columns])
                maximum(ready, there, out=ready)
            if any_streamed[task]:
                ready += launches[task]
                joined[task] = ready
            at = flat_places[task]
            took, used = seconds[task], busy[task]
            available = free[at]
            start = maximum(ready, available)
            begin = maximum(ready, gap_begin[at])
            fits = begin + used <= gap_end[at]
            if fits.any():
                start = where(fits, begin, start)
                gap_begin[at] = where(fits, begin + used, gap_begin[at])
                waits = ~fits & (start > available)
                free[at] = where(fits, available, start + used)
            else:
                waits = start > available
                free[at] = start + used
            if waits.any():
                hole = at[waits]
                longer = (start[waits] - available[waits]) > gap_end[hole] - gap_begin[hole]
                hole = hole[longer]
                gap_begin[hole] = available[waits][longer]
                gap_end[hole] = start[waits][longer]
            end = ends[task] = start + took
            maximum(last, end, out=last)
            if task in moved:
                far = arrived[task] = np.full((self._size, count), np.inf)
                own = owns[task]
                made = tasks[task].makes
                for memory, who in moved[task]:
                    source = own[who]
                    takes = self._delay[source, memory] + made * self._pace[source, memory]
                    leave = end[who]
                    for row in self._ports:
                        leave = maximum(leave, ports[row[source, memory], who])
                    arrive = leave + takes
                    for row in self._ports:
                        ports[row[source, memory], who] = arrive
                    ports[self._no_port] = 0.0
                    far[memory, who] = arrive
        return last

    def _moves(self, devices: _Array, owns: _Array) -> dict[int, list[tuple[int, _Array]]]:
        """Return, for each task whose output is moved, the memories to which it is moved, each with the assignments."""
        found: dict[int, list[tuple[int, _Array]]] = {}
        wanted = self._memories[self._from_host[:, None], devices[self._readers]]
        for memory in range(self._size):
            is_moved = (wanted == memory) & (owns[self._read_sources] != memory)
            for row in np.flatnonzero(is_moved.any(axis=1)):
                source = int(self._read_sources[row])
                rows = found.setdefault(source, [])
                if rows and rows[-1][0] == memory:
                    rows[-1] = memory, rows[-1][1] | is_moved[row]
                else:
                    rows.append((memory, is_moved[row]))
        return {source: [(memory, np.flatnonzero(who)) for memory, who in rows] for source, rows in found.items()}
