"""Machines for the sessions of a Python program, from the program's config and the options in its environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from placesim.machine.gpu_memory import GpuLogLine, GpuProcess
from placesim.machine.inventory import Device, DeviceSet, TaskInventory
from placesim.machine.links import NO_LINKS, MachineLinks
from placesim.machine.options import SimulationOptions
from placesim.studies.simulation.settings import build_machine_settings, open_ledger, override_config, session_devices

if TYPE_CHECKING:
    from placesim.graph.graph import Graph
    from placesim.graph.session_steps import Config
    from placesim.ops.kernels.device_resources import SharedResources
    from placesim.runtime.sessions.session import GraphSession


class OpenedMachine(NamedTuple):
    """The devices of a program's session, with its config and the options of its machine."""

    devices: tuple[Device, ...]
    device_set: DeviceSet
    config: Config
    creation_log: tuple[GpuLogLine, ...]
    options: SimulationOptions
    process: GpuProcess
    tasks: tuple[TaskInventory, ...] = ()
    links: MachineLinks = NO_LINKS
    shared: SharedResources | None = None

    def open_session(self, graph: Graph) -> GraphSession:
        """Open a session for a graph that may grow between steps. The graph may access the same files as the program."""
        from placesim.core.files.access import FileAccess
        from placesim.runtime.sessions.session import GraphSession

        files = FileAccess.of([], (), True)
        ledger = open_ledger(self.devices, self.options, self.process)
        return GraphSession(graph, self.devices, self.config, files=files, ledger=ledger, shared=self.shared)


def open_machine(
    config: Config,
    options: SimulationOptions,
    process: GpuProcess,
    *,
    puts_counts_aside: bool = False,
    cluster: Sequence[tuple[str, int]] = (),
) -> OpenedMachine:
    """Open the machine of a session with this config.

    `cluster` has pairs of a job and its number of tasks. The config's `device_count` selects devices of the machine, unless
    `puts_counts_aside`. Raises the errors that TensorFlow raises when it creates devices.
    """
    from placesim.runtime.sessions.visible_devices import build_device_set

    log: list[GpuLogLine] = []
    settled = override_config(config, options if puts_counts_aside else replace(options, cpu=None, gpu=None))
    tasks, links = build_machine_settings(None, options)
    if cluster:
        tasks = _cluster_of(tasks, cluster)
    devices = session_devices(tasks, settled, replace(options, process=process), log.append, options.release)
    return OpenedMachine(
        devices, build_device_set(devices, settled, options.release), settled, tuple(log), options, process, tasks, links
    )


def _cluster_of(known: Sequence[TaskInventory], cluster: Sequence[tuple[str, int]]) -> tuple[TaskInventory, ...]:
    """Return a task for each job of the cluster.

    Each task has the devices of the known job with the same name, or else of the first known job.
    """
    by_job = {task.job: task for task in known}
    return tuple(by_job.get(job, known[0])._replace(job=job, tasks=count) for job, count in cluster)
