"""Compilation of partitions to programs, and the choice of the executor that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.kernel import is_expensive
from placesim.runtime.executors.observers import StepObserver
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.program import DeviceState, Program, build_programs, needs_dataflow
from placesim.runtime.partitioning.partition import Partition

if TYPE_CHECKING:
    from concurrent.futures import Executor as Pool

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
    """Compile the partitions of a step or function, and choose an executor for any number of runs.

    `states` has the devices' states by name. The order of nodes is fixed beforehand if possible. With a `pool`, expensive
    kernels run in it. An `observer` sees each node. `is_body` and `let_others` are those of `DataflowSetup`. Raises the errors
    of `build_program`.
    """
    programs = list(build_programs(parts, states, load_kernels(), step_resources, call_function))
    # a fixed order costs less per node, but knows neither branches nor waiting
    if needs_dataflow(programs) or (pool is not None and has_parallel_work(programs)):
        from placesim.runtime.executors.dataflow_executor import DataflowExecutor

        return DataflowExecutor(programs, pool, observer, is_body=is_body, let_others=let_others)
    return Executor(programs, observer)


def has_parallel_work(programs: Sequence[Program]) -> bool:
    """Whether at least two nodes are expensive enough to run in threads of their own."""
    return sum(is_expensive(instruction.kernel) for program in programs for instruction in program.instructions) > 1
