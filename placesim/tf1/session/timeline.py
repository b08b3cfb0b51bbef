"""`tensorflow.python.client.timeline`: a step's statistics as Chrome's trace events, named as TensorFlow names them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_LABEL = re.compile(r"(?P<name>.*?) = (?P<op>[^(]*)\((?P<inputs>.*)\)\Z", re.DOTALL)


class Timeline:
    """The trace of a StepStats message."""

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._step_stats = step_stats

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """The trace as JSON: one process a device, one slice a kernel that ran."""
        return json.dumps({"traceEvents": list(self._events())}, indent=4, separators=(",", ": "))

    def _events(self) -> Iterator[dict[str, Any]]:
        for pid, device in enumerate(self._step_stats.dev_stats, 1):
            yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"{device.device} Compute"}}
            for stats in device.node_stats:
                found = _LABEL.match(stats.timeline_label)
                name, op, inputs = (found["name"], found["op"], found["inputs"]) if found else (stats.node_name, "unknown", "")
                args = {"name": name, "op": op}
                args |= {f"input{i}": text for i, text in enumerate(filter(None, inputs.split(", ")))}
                yield {
                    "ph": "X",
                    "cat": "Op",
                    "name": op,
                    "pid": pid,
                    "tid": stats.thread_id,
                    "ts": stats.all_start_micros,
                    "dur": stats.all_end_rel_micros,
                    "args": args,
                }
