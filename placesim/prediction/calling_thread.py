"""Nodes that placesim's executors pass to a pool, and nodes that run in the thread that called the step."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set

from placesim.ops.kernels.kernel import is_expensive
from placesim.prediction.node_shapes import num_bytes
from placesim.runtime.executors.dataflow import LARGE_INPUT_BYTES
from placesim.runtime.executors.executor_choice import has_parallel_work
from placesim.runtime.executors.program import needs_dataflow
from placesim.runtime.recording.recorder import Execution


def uses_pool(step: Sequence[Execution]) -> bool:
    """Whether a session with several threads between ops runs the step in dataflow order, with a pool."""
    sites = [execution.site for execution in step if execution.site is not None and not execution.is_called]
    programs = list({id(site.program): site.program for site in sites}.values())
    return needs_dataflow(programs) or has_parallel_work(programs)


def passed_to_pool(step: Sequence[Execution]) -> Set[int]:
    """Return the numbers of the executions that run in a pool.

    A node that may run there runs in the calling thread if nothing else is ready or running; a function runs where it is
    called. Nodes of the pool are assumed to end in order, and after all nodes that are ready.
    """
    consumers: list[list[int]] = [[] for _ in step]
    missing = [len(execution.sources) for execution in step]
    for number, execution in enumerate(step):
        for source in execution.sources:
            consumers[source].append(number)
    ready = deque(number for number, count in enumerate(missing) if not count)
    running: deque[int] = deque()
    found = set()
    while ready or running:
        if ready:
            number = ready.popleft()
            if (ready or running) and _may_run_in_pool(step[number]):
                found.add(number)
                running.append(number)
                continue
        else:
            number = running.popleft()
        for consumer in consumers[number]:
            missing[consumer] -= 1
            if not missing[consumer]:
                ready.append(consumer)
    return found


def _may_run_in_pool(execution: Execution) -> bool:
    site = execution.site
    if site is None or execution.is_dead or execution.is_called or not is_expensive(site.instruction.kernel):
        return False
    return num_bytes(execution.inputs) > LARGE_INPUT_BYTES
