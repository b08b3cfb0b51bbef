"""Reader of Chrome traces: of TensorFlow's `timeline.Timeline`, of placesim's `--trace`, and of TensorFlow's profiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placesim.formats.traces.not_measured import FORMATS, NotMeasuredError
from placesim.formats.traces.profiler_events import ProfilerEvent, profiled_steps
from placesim.formats.traces.run_names import kind_of_device, named_run
from placesim.machine.timelines.measured_steps import COPY, MeasuredRun, Measurement, divide_at_marks, single_step

_MICRO = 1e-6
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
        self._frames = frames if isinstance(frames, Mapping) else {}
        self._slices = [event for event in events if event.get("ph") == "X"]
        self._processes: dict[Any, str] = {}
        self._threads: dict[Any, str] = {}
        for event in events:
            name = _args(event).get("name")
            if event.get("ph") == "M" and isinstance(name, str):
                if event.get("name") == "process_name":
                    self._processes[str(event.get("pid"))] = name
                elif event.get("name") == "thread_name":
                    self._threads[_thread(event)] = name

    def timeline_steps(self) -> Any:
        """Return the steps of a timeline: those that placesim marks, else a single one."""
        marks = [
            (start, start + seconds) for event in self._slices if event.get("cat") == "Step" for start, seconds in _times(event)
        ]
        runs = dict.fromkeys(self._timeline_runs())  # a copy between two GPUs stands under both
        return divide_at_marks(runs, marks) if marks else (single_step(runs),)

    def _timeline_runs(self) -> Iterator[MeasuredRun]:
        for event in self._slices:
            args = _args(event)
            name, op = args.get("name"), args.get("op")
            kind = kind_of_device(self._process(event).removesuffix(_COMPUTE))
            if event.get("cat") != "Op" or kind is None or not isinstance(name, str) or not isinstance(op, str):
                continue
            for start, seconds in _times(event):
                # a label may begin with the memory that the run used
                own = name.rpartition(" ")[2] if kind != COPY else name.partition(":")[0]
                yield named_run(kind, own, op, start, seconds)

    def profiler_events(self) -> Iterator[ProfilerEvent]:
        for event in self._slices:
            args, frame = _args(event), self._frames.get(str(event.get("sf")))
            given = [event.get("name"), *(args.get(key) for key in _NAMES), _args(event, frame).get("name")]
            names = [name for name in given if isinstance(name, str)]
            line = self._threads.get(_thread(event), "")
            for start, seconds in _times(event) if names else ():
                yield ProfilerEvent(self._process(event), line, names, start, seconds, "step_num" in args)

    def _process(self, event: Mapping[str, Any]) -> str:
        return self._processes.get(str(event.get("pid")), "")


def _args(event: Mapping[str, Any], found: Any = ...) -> Mapping[str, Any]:
    """Return the arguments of an event, or `found`, if they are a mapping."""
    found = event.get("args") if found is ... else found
    return found if isinstance(found, Mapping) else {}


def _thread(event: Mapping[str, Any]) -> str:
    return f"{event.get('pid')} {event.get('tid')}"


def _times(event: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield start and duration of an event in seconds, unless they are no numbers."""
    start, duration = event.get("ts"), event.get("dur", 0)
    if all(isinstance(value, int | float) and abs(value) < 1e300 for value in (start, duration)):
        yield start * _MICRO, max(0, duration) * _MICRO  # type: ignore[operator]
