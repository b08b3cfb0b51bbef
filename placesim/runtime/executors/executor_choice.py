"""Choice of the executor of partitions, which are compiled to programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from typing import TYPE_CHECKING, Any, TypeAlias

from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.kernel import is_expensive
from placesim.runtime.executors.observers import StepObserver
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.program import DeviceState, Program, build_program, needs_dataflow
from placesim.runtime.partitioning.partition import Partition

if TYPE_CHECKING:
    from placesim.runtime.executors.dataflow_executor import DataflowExecutor

AnyExecutor: TypeAlias = "Executor | DataflowExecutor"


def build_executor(
    parts: Sequence[Partition],
    states: Mapping[str, DeviceState],
    step_resources: dict[str, Any],
    call_function: Callable[..., Sequence[Any]],
    pool: Pool | None = None,
    observer: StepObserver | None = None,
    *,
    is_body: bool = False,
    let_others: Callable[[str], bool] | None = None,
) -> AnyExecutor:
    """Choose the executor of one step's or one function's partitions, for any number of runs; `states` are those of the devices
    by name.

    The order is fixed beforehand where it can be.  With a `pool` the ops that deserve a thread of their own run in it.  An
    `observer` is told of each node.  `is_body` tells a function's.  Where nothing
    of a step can run, `let_others` lets other steps, and says whether to try again.  Raises what `build_program` raises.
    """
    kernels = load_kernels()
    programs = [build_program(part.graph, states[part.device.name], kernels, step_resources, call_function) for part in parts]
    if needs_dataflow(programs) or (pool is not None and _has_parallel_work(programs)):
        from placesim.runtime.executors.dataflow_executor import DataflowExecutor

        return DataflowExecutor(programs, pool, observer, is_body=is_body, let_others=let_others)
    return Executor(programs, observer)


def _has_parallel_work(programs: Sequence[Program]) -> bool:
    """Whether there are at least two ops that deserve a thread of their own."""
    found = sum(is_expensive(instruction.kernel) for program in programs for instruction in program.instructions)
    return found > 1
