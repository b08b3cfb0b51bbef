"""Reader of Chrome traces: of TensorFlow's `timeline.Timeline`, of placesim's `--trace`, and of TensorFlow's profiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placesim.formats.traces.not_measured import FORMATS, NotMeasuredError
from placesim.formats.traces.profiler_events import ProfilerEvent, profiled_steps
from placesim.formats.traces.run_names import kind_of_device, named_run
from placesim.machine.timelines.measured_steps import COPY, MeasuredRun, MeasuredStep, Measurement, divide_at_marks, single_step

_MICRO = 1e-6
_MAX_MICROS = 1e18
"""Largest time in a trace: some ten thousand years."""
_COMPUTE = " Compute"
_NAMES = ("long_name", "tf_op", "name")


def read_chrome_trace(document: Any) -> Measurement:
    """Read a trace from its parsed JSON. Raises NotMeasuredError if it is no trace of TensorFlow's ops."""
    events = document.get("traceEvents") if isinstance(document, Mapping) else document
    if not isinstance(events, list):
        raise NotMeasuredError(f"got JSON without 'traceEvents', expected {FORMATS}")
    known = [event for event in events if isinstance(event, Mapping)]
    trace = _Trace(known, document.get("stackFrames") if isinstance(document, Mapping) else None)
    if any(event.get("cat") == "Op" for event in known):
        return Measurement("a timeline", trace.timeline_steps())
    return Measurement("a trace of the profiler", profiled_steps(trace.profiler_events()))


class _Trace:
    def __init__(self, events: list[Mapping[str, Any]], frames: Any) -> None:
        self._frames = _mapping(frames)
        self._slices = [event for event in events if event.get("ph") == "X" and _has_times(event)]
        self._first = min((event["ts"] for event in self._slices), default=0)
        self._processes: dict[Any, str] = {}
        self._threads: dict[Any, str] = {}
        for event in events:
            name = _mapping(event.get("args")).get("name")
            if event.get("ph") == "M" and isinstance(name, str):
                if event.get("name") == "process_name":
                    self._processes[str(event.get("pid"))] = name
                elif event.get("name") == "thread_name":
                    self._threads[_thread(event)] = name

    def timeline_steps(self) -> tuple[MeasuredStep, ...]:
        """Return the steps of a timeline: the steps that placesim marks, else a single step."""
        spans = [self._times(event) for event in self._slices if event.get("cat") == "Step"]
        runs = dict.fromkeys(self._timeline_runs())  # a copy between two GPUs stands under both
        return divide_at_marks(runs, [(start, start + seconds) for start, seconds in spans]) if spans else (single_step(runs),)

    def _timeline_runs(self) -> Iterator[MeasuredRun]:
        for event in self._slices:
            args = _mapping(event.get("args"))
            name, op = args.get("name"), args.get("op")
            kind = kind_of_device(self._process(event).removesuffix(_COMPUTE))
            if event.get("cat") == "Op" and kind is not None and isinstance(name, str) and isinstance(op, str):
                # a label may begin with the memory that the run used, and a copy's name ends in its kind
                own = name.rpartition(" ")[2] if kind != COPY else name.partition(":")[0]
                yield named_run(kind, own, op, *self._times(event))

    def profiler_events(self) -> Iterator[ProfilerEvent]:
        for event in self._slices:
            args, frame = _mapping(event.get("args")), _mapping(self._frames.get(str(event.get("sf"))))
            given = [event.get("name"), *(args.get(key) for key in _NAMES), frame.get("name")]
            names = [name for name in given if isinstance(name, str)]
            line = self._threads.get(_thread(event), "")
            if names:
                yield ProfilerEvent(self._process(event), line, names, *self._times(event), "step_num" in args)

    def _times(self, event: Mapping[str, Any]) -> tuple[float, float]:
        """Return start and duration of an event in seconds, from the first event on."""
        return (event["ts"] - self._first) * _MICRO, max(0, event.get("dur", 0)) * _MICRO

    def _process(self, event: Mapping[str, Any]) -> str:
        return self._processes.get(str(event.get("pid")), "")


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _thread(event: Mapping[str, Any]) -> str:
    return f"{event.get('pid')} {event.get('tid')}"


def _has_times(event: Mapping[str, Any]) -> bool:
    times = event.get("ts"), event.get("dur", 0)
    return all(isinstance(value, int | float) and abs(value) < _MAX_MICROS for value in times)
