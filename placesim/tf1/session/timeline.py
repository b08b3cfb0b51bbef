"""`tensorflow.python.client.timeline`: a step's statistics as Chrome's trace events, with TensorFlow's names.

Source: what TensorFlow 2.21 writes for the step statistics in tests/tf1/test_timeline.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

_LABEL = re.compile(r"(?P<name>.*?) = (?P<op>[^(]*)\((?P<inputs>.*)\)\Z", re.DOTALL)
_RECEIVED = "RecvTensor"
_ALLOCATORS = 0
"""Process number of the memory counters; each device has the next two numbers."""


class AllocationMaximum(NamedTuple):
    """Highest memory use of an allocator: bytes, time and tensors."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class StepStatsAnalysis(NamedTuple):
    """Result of `analyze_step_stats`."""

    chrome_trace: Any
    allocator_maximums: dict[str, AllocationMaximum]


class _Slice(NamedTuple):
    """Drawn run of a kernel: `pid` is the process number of its device, `tid` its lane."""

    stats: Any
    name: str
    op: str
    inputs: tuple[str, ...]
    pid: int
    tid: int

    @property
    def start(self) -> int:
        return int(self.stats.all_start_micros)

    @property
    def end(self) -> int:
        return self.start + int(self.stats.all_end_rel_micros)


class _Tensor:
    """A tensor, which lives from the start of the kernel that makes it to the end of its last reader."""

    def __init__(self, number: int, output: Any, made_by: _Slice) -> None:
        self.number = number
        self.name = f"{made_by.stats.node_name}:{output.slot}" if output.slot else str(made_by.stats.node_name)
        self.pid = made_by.pid + 1
        self.made_by = made_by
        self.description = output.tensor_description
        self.allocator = self.description.allocation_description.allocator_name
        self.num_bytes = int(self.description.allocation_description.requested_bytes)
        self.end = made_by.end


class Timeline:
    """The trace of a StepStats message."""

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._step_stats = step_stats

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """The trace as JSON, with a process for each device and a slice for each kernel run.

        `show_dataflow` adds arrows to readers in other lanes; `show_memory` adds tensors, and the memory use of allocators.
        """
        return self.analyze_step_stats(show_dataflow, show_memory, op_time).chrome_trace.format_to_string(pretty=True)  # type: ignore[no-any-return]

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """The trace, and the highest use of each allocator."""
        if op_time != "schedule":
            from placesim.tf1.importing.missing_names import not_there

            raise not_there(f"Timeline with op_time={op_time!r} (kernels on a GPU of its own clock)", "op_time='schedule'")
        slices = list(self._slices())
        made = _tensors_made(slices)
        tensors = {tensor.name: tensor for tensor in made}
        _mark_ends(tensors, slices)
        counters, maximums = _counters(tensors)
        events = [
            *self._processes(),
            *(event for tensor in made if show_memory for event in _making(tensor)),
            *_operations(slices, tensors if show_dataflow else {}),
            *(_tensor_event("D", tensor, tensor.end, 0) for tensor in tensors.values() if show_memory),
            *(counters if show_memory else ()),
        ]
        return StepStatsAnalysis(ChromeTrace(events), maximums)

    def _processes(self) -> Iterator[dict[str, Any]]:
        names = (f"{device.device} {kind}" for device in self._step_stats.dev_stats for kind in ("Compute", "Tensors"))
        for pid, name in enumerate(("Allocators", *names)):
            yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}

    def _slices(self) -> Iterator[_Slice]:
        """Slices of all runs, each in the first lane of its device that is free at its start."""
        for number, device in enumerate(self._step_stats.dev_stats):
            lanes: list[int] = []
            for stats in device.node_stats:
                start, end = stats.all_start_micros, stats.all_start_micros + stats.all_end_rel_micros
                lane = next((i for i, last in enumerate(lanes) if last < start), len(lanes))
                lanes[lane : lane + 1] = [end]
                yield _Slice(stats, *_read_label(stats), 1 + 2 * number, lane)


class ChromeTrace:
    """Trace events; `format_to_string` returns them as JSON."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events

    def format_to_string(self, pretty: bool = False) -> str:
        """The JSON text, indented if `pretty`."""
        return json.dumps({"traceEvents": self._events}, **({"indent": 4, "separators": (",", ": ")} if pretty else {}))  # type: ignore[arg-type]


def _read_label(stats: Any) -> tuple[str, str, tuple[str, ...]]:
    found = _LABEL.match(stats.timeline_label)
    if found is None:
        return stats.node_name, _RECEIVED if stats.node_name == _RECEIVED else "unknown", ()
    return found["name"], found["op"], tuple(filter(None, found["inputs"].split(", ")))


def _tensors_made(slices: list[_Slice]) -> list[_Tensor]:
    """Outputs of all runs.

    A tensor's number is the count of different names before it, as in TensorFlow.  So if a node runs several times, its
    later outputs have the same numbers as other tensors.
    """
    made: list[_Tensor] = []
    names: set[str] = set()
    for made_by in slices:
        for output in made_by.stats.output:
            made.append(_Tensor(len(names), output, made_by))
            names.add(made[-1].name)
    return made


def _mark_ends(tensors: dict[str, _Tensor], slices: list[_Slice]) -> None:
    for reader in slices:
        for name in reader.inputs:
            if name in tensors:
                tensors[name].end = max(tensors[name].end, reader.end - 1)


def _operations(slices: list[_Slice], tensors: dict[str, _Tensor]) -> Iterator[dict[str, Any]]:
    numbers = count()
    for slice_ in slices:
        args = {"name": slice_.name, "op": slice_.op} | {f"input{i}": text for i, text in enumerate(slice_.inputs)}
        where = {"pid": slice_.pid, "tid": slice_.tid, "ts": slice_.start}
        yield {"ph": "X", "cat": "Op", "name": slice_.op, **where, "dur": slice_.end - slice_.start, "args": args}
        for name in slice_.inputs:
            if name not in tensors:
                continue
            source = tensors[name].made_by
            if (source.pid, source.tid) != (slice_.pid, slice_.tid):
                number, arrow = next(numbers), {"cat": "DataFlow", "name": name}
                yield {"ph": "s", **arrow, "pid": source.pid, "tid": source.tid, "ts": source.end, "id": number}
                yield {"ph": "t", **arrow, **where, "id": number}


def _making(tensor: _Tensor) -> Iterator[dict[str, Any]]:
    made_by = tensor.made_by
    yield _tensor_event("N", tensor, made_by.start, made_by.tid)
    snapshot = {"snapshot": {"tensor_description": str(tensor.description).replace('"', "")}}
    yield {**_tensor_event("O", tensor, made_by.end - 1, made_by.tid), "args": snapshot}


def _tensor_event(kind: str, tensor: _Tensor, moment: int, lane: int) -> dict[str, Any]:
    return {"ph": kind, "cat": "Tensor", "name": tensor.name, "pid": tensor.pid, "tid": lane, "ts": moment, "id": tensor.number}


def _counters(tensors: dict[str, _Tensor]) -> tuple[list[dict[str, Any]], dict[str, AllocationMaximum]]:
    """Trace events with the bytes that tensors hold in each allocator, at each change; and the maximum of each allocator."""
    changes: dict[str, list[tuple[int, int, str]]] = {}
    for tensor in tensors.values():
        found = changes.setdefault(tensor.allocator, [])
        found.append((tensor.made_by.start, tensor.num_bytes, tensor.name))
        found.append((tensor.end, -tensor.num_bytes, tensor.name))
    events, maximums = [], {}
    for allocator, found in changes.items():
        held, most, alive = 0, AllocationMaximum(0, 0, set()), set[str]()
        for moment, size, name in sorted(found):
            held += size
            alive = alive - {name} if size < 0 else alive | {name}
            if held > most.num_bytes:
                most = AllocationMaximum(moment, held, set(alive))
            place = {"cat": "Memory", "name": allocator, "pid": _ALLOCATORS, "tid": 0, "ts": moment}
            events.append({"ph": "C", **place, "args": {allocator: held}})
        maximums[allocator] = most
    return events, maximums
