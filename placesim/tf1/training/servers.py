"""`tf.train.Server`: a task of a cluster, all of whose tasks are simulated in this process.

All sessions of a cluster share its variables and queues, whichever of its servers they connect to.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from placesim.formats.tensorflow.messages import message_class
from placesim.tf1 import errors
from placesim.tf1.session.targets import register_target
from placesim.tf1.training.cluster_spec import ClusterSpec
from placesim.tf1.types.read_only import read_only

if TYPE_CHECKING:
    from placesim.graph.session_steps import Config
    from placesim.machine.program_machine import Machine

_SCHEME = "grpc://"
_free_ports = itertools.count(2222)
"""Ports for servers without a given port; TensorFlow chooses free ports."""


def tell(text: str) -> None:
    """Report a deviation of the simulated cluster on standard error."""
    sys.stderr.write(f"placesim: {text}\n")


def is_alone(target: str) -> bool:
    """Whether no other process or thread can run steps in the cluster of a target."""
    from placesim.runtime.executors.session_turns import other_threads_may_run_steps

    return (not target or target.startswith(_SCHEME)) and not other_threads_may_run_steps()


class _Cluster:
    """Jobs of a cluster, and the state of its devices."""

    def __init__(self, spec: ClusterSpec) -> None:
        from placesim.ops.kernels.device_resources import SharedResources

        self.spec = spec
        self.shared = SharedResources()

    def open(self, task: str, config: Config, machine: Machine) -> Any:
        """Machine of a session that connects to a task."""
        from dataclasses import replace

        from placesim.studies.simulation.program_sessions import open_machine

        sizes = [(job, len(tasks)) for job in self.spec.jobs if (tasks := self.spec.job_tasks(job))]
        opened = open_machine(
            replace(config, master=task),
            machine.options,
            machine.process,
            puts_counts_aside=machine.is_overridden,
            cluster=sizes,
        )
        return opened._replace(shared=self.shared)


_clusters: list[_Cluster] = []
_tasks: dict[str, tuple[_Cluster, str]] = {}
"""Target -> its cluster, and its task in the cluster."""
_ports: set[int] = set()
"""Ports of the running servers."""


class Server:
    """Server of a task.

    Raises TypeError for an invalid cluster, ValueError if no task is named, InternalError for a task outside the cluster.
    """

    __module__ = "tensorflow.python.training.server_lib"

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        self._definition = _definition(server_or_cluster_def, job_name, task_index, protocol, config)
        spec = ClusterSpec(self._definition.cluster)
        job, index = self._definition.job_name, self._definition.task_index
        if job not in spec.jobs:
            raise errors.InternalError(None, None, f'Job "{job}" was not defined in cluster')
        if index not in spec.task_indices(job):
            raise errors.InternalError(None, None, f'Task {index} was not defined in job "{job}"')
        host, _, port = spec.task_address(job, index).rpartition(":")
        number = int(port or 0) or next(_free_ports)
        if number in _ports:
            raise errors.UnknownError(None, None, "Could not start gRPC server")
        _ports.add(number)
        self._target = f"{_SCHEME}{host}:{number}"
        # two equal descriptions with free ports are two clusters
        cluster = next((known for known in _clusters if known.spec == spec and not _has_free_port(spec)), None)
        if cluster is None:
            cluster = _Cluster(spec)
            _clusters.append(cluster)
            for other in spec.jobs:
                for number in spec.task_indices(other):
                    address = spec.task_address(other, number)
                    _tasks.setdefault(_SCHEME + address, (cluster, f"/job:{other}/replica:0/task:{number}"))
        _tasks[self._target] = (cluster, f"/job:{job}/replica:0/task:{index}")

    @staticmethod
    def create_local_server(config: object = None, start: bool = True) -> Server:
        """Server of a cluster with only this task."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    server_def = read_only("_definition", "The ServerDef.")
    target: str = read_only("_target", "Target of sessions that connect to this server.")

    def start(self) -> None:
        """Do nothing: a server runs as soon as it is made."""

    def join(self) -> NoReturn:
        """End the script with a message, since there is no other process to serve."""
        task = f"/job:{self._definition.job_name}/task:{self._definition.task_index}"
        tell(
            f"{task} would serve other processes till it is ended; here a worker's script simulates the whole cluster: "
            "run that one (what tells it its task follows `--`)"
        )
        raise SystemExit(0)


def create_local_cluster(
    num_workers: int, num_ps: int, protocol: str = "grpc", worker_config: Any = None, ps_config: Any = None
) -> tuple[list[Server], list[Server]]:
    """Servers of the workers, and of the parameter servers, of a new cluster."""
    jobs = {"worker": num_workers, "ps": num_ps}
    spec = ClusterSpec({job: [f"localhost:{next(_free_ports)}" for _ in range(count)] for job, count in jobs.items()})
    workers, servers = (
        [Server(spec, job, index, protocol, config) for index in range(jobs[job])]
        for job, config in (("worker", worker_config), ("ps", ps_config))
    )
    return workers, servers


def _has_free_port(spec: ClusterSpec) -> bool:
    return any(address.endswith(":0") for job in spec.jobs for address in spec.job_tasks(job) if address)


def _definition(given: object, job_name: Any, task_index: object, protocol: object, config: object) -> Any:
    """ServerDef from a server's arguments."""
    kind = message_class("ServerDef")
    found = kind()
    if isinstance(given, kind):
        found.CopyFrom(given)
        if job_name is not None:
            found.job_name = job_name
        if task_index is not None:
            found.task_index = task_index
        if protocol is not None:
            found.protocol = protocol
    else:
        try:
            spec = ClusterSpec(given)
        except TypeError:
            raise TypeError(
                "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or `tf.train.ClusterSpec`."
            ) from None
        if job_name is None:
            if len(spec.jobs) != 1:
                raise ValueError("Must specify an explicit `job_name`.")
            job_name = spec.jobs[0]
        if task_index is None:
            indices = spec.task_indices(job_name)
            if len(indices) != 1:
                raise ValueError("Must specify an explicit `task_index`.")
            task_index = indices[0]
        found.cluster.CopyFrom(spec.as_cluster_def())
        found.job_name, found.task_index, found.protocol = job_name, task_index, protocol or "grpc"
    if config is not None:
        # a given config adds to that of the ServerDef
        found.default_session_config.MergeFrom(config)
    return found


def _find(target: str, config: Config, machine: Machine) -> Any:
    cluster, task = _known(target)
    return cluster.open(task, config, machine)


def _reset(target: str, containers: object) -> None:
    _known(target)[0].shared.clear()


def _known(target: str) -> tuple[_Cluster, str]:
    if target not in _tasks:
        raise errors.NotFoundError(
            None,
            None,
            f"No server of this process is at {target}: placesim simulates a cluster where the script makes its "
            "tf.train.Server, and reaches no other process",
        )
    return _tasks[target]


register_target(_SCHEME, _find, _reset)
