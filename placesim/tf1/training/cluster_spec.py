"""`tf.train.ClusterSpec`, and `replica_device_setter`, which assigns variables to parameter servers in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.types.device_spec import DeviceSpec

_ADDRESSES = "lists of network addresses, or a `ClusterDef` protocol buffer"
PS_OPS = (
    *("Variable", "VariableV2", "AutoReloadVariable", "MutableHashTable", "MutableHashTableV2"),
    *("MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2"),
    *("VarHandleOp", "BoostedTreesEnsembleResourceHandleOp", "BoostedTreesQuantileStreamResourceHandleOp"),
    *("ResourceConditionalAccumulator", "DecisionTreeResource"),
)
"""Ops that `replica_device_setter` treats as variables by default."""


class ClusterSpec:
    """Jobs with the addresses of their tasks.  Raises TypeError for an invalid description."""

    def __init__(self, cluster: Any) -> None:
        self._jobs: dict[str, dict[int, str]] = {}
        if isinstance(cluster, ClusterSpec):
            self._jobs = {name: dict(tasks) for name, tasks in cluster._jobs.items()}
        elif isinstance(cluster, message_class("ClusterDef")):
            self._jobs = {job.name: dict(job.tasks) for job in cluster.job}
        elif isinstance(cluster, dict):
            for name, tasks in cluster.items():
                if isinstance(tasks, list | tuple):
                    self._jobs[name] = dict(enumerate(tasks))
                elif isinstance(tasks, dict):
                    self._jobs[name] = {int(index): address for index, address in tasks.items()}
                else:
                    raise TypeError(f"The tasks for job {name!r} must be a list or a dictionary from integers to strings.")
        else:
            raise TypeError(f"`cluster` must be a dictionary mapping one or more job names to {_ADDRESSES}")
        for name, job in self._jobs.items():
            for address in job.values():
                if not isinstance(name, str | bytes):
                    raise TypeError(f"Job name {name!r} must be bytes or unicode")
                if not isinstance(address, str | bytes):
                    raise TypeError(f"Task address {address!r} must be bytes or unicode")
        # sorted like TensorFlow's ClusterDef: equal clusters have equal text
        self._jobs = {name: dict(sorted(self._jobs[name].items())) for name in sorted(self._jobs)}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({{{', '.join(f'{name!r}: {tasks!r}' for name, tasks in self.as_dict().items())}}})"

    def as_dict(self) -> dict[str, Any]:
        """Addresses of each job: a list, or a dict if task indices are missing."""
        return {
            name: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
            for name, tasks in self._jobs.items()
        }

    def as_cluster_def(self) -> Any:
        """The cluster as a ClusterDef."""
        found = message_class("ClusterDef")()
        for name, tasks in self._jobs.items():
            job = found.job.add()
            job.name = name
            for index, address in tasks.items():
                job.tasks[index] = address
        return found

    @property
    def jobs(self) -> list[str]:
        return list(self._jobs)

    def _tasks(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise ValueError(f"No such job in cluster: {job_name!r}")
        return self._jobs[job_name]

    def num_tasks(self, job_name: str) -> int:
        """Number of tasks in a job.  Raises ValueError for an unknown job."""
        return len(self._tasks(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Indices of a job's tasks.  Raises ValueError for an unknown job."""
        return list(self._tasks(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Address of a task.  Raises ValueError for an unknown job or task."""
        tasks = self._tasks(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Addresses of a job by task index, None for a missing index.  Raises ValueError for an unknown job."""
        tasks = self._tasks(job_name)
        return [tasks.get(i) for i in range(max(tasks) + 1)] if tasks else []


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: object = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: object = None,
) -> Callable[[Any], str] | None:
    """Device function for variables and workers; None without parameter servers.  Raises TypeError for an invalid strategy."""
    if cluster is not None:
        spec = cluster if isinstance(cluster, ClusterSpec) else ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        # a cluster without parameter servers needs no device function
        if job is None or job not in spec.jobs or not spec.num_tasks(job):
            return None
        ps_tasks = spec.num_tasks(job)
    if not ps_tasks:
        return None
    ops = frozenset(PS_OPS if ps_ops is None else ps_ops)
    if ps_strategy is not None and not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    turns = itertools.cycle(range(ps_tasks))
    strategy: Callable[[Any], int] = (lambda op: next(turns)) if ps_strategy is None else ps_strategy
    ps, worker = DeviceSpec.from_string(ps_device or ""), DeviceSpec.from_string(worker_device or "")

    def choose(op: Any) -> str:
        # the older behaviour: a device of the scope replaces the setter's device as a whole
        if not merge_devices and op.device:
            return op.device  # type: ignore[no-any-return]
        current = DeviceSpec.from_string(op.device or "")
        chosen = worker
        if ps_device and (op.type if hasattr(op, "type") else op.op) in ops:
            chosen = ps
            # a variable with another job keeps it, and takes no turn
            if ps.job and (not current.job or current.job == ps.job):
                chosen = ps.replace(task=strategy(op))
        # the fields that the op requests win over those of the setter
        return chosen.make_merged_spec(current).to_string()

    return choose
