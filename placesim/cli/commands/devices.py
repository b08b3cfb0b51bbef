"""`placesim devices`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from placesim.cli.cluster_options import scheduler_options, take_connection
from placesim.cli.command import command
from placesim.cli.option_types import own_option
from placesim.cli.options import given, machine_options, simulated_release_option, table_format_option
from placesim.core.errors import UsageError
from placesim.core.escaping import escape_line
from placesim.core.releases import CURRENT, Release, find_release
from placesim.machine.gpu_memory import GpuLogLine, gpu_memory_limit
from placesim.machine.gpu_models import GPU_MODELS, near_models
from placesim.machine.gpu_options import shell_environment
from placesim.machine.inventory import Device
from placesim.runtime.cluster.connection_settings import Connection

_DEVICE_COLUMNS = ("name", "type", "memory_limit", "physical_device_desc")
_WORKER_COLUMNS = ("address", "name", "host", "threads", "memory", "placesim", "python", "numpy")
_MODEL_COLUMNS = ("name", "memory", "memory_limit", "compute_capability")


EXITS = {
    0: "done",
    1: "TensorFlow would refuse the machine, or the cluster can't be used",
    2: "the command line or a file is wrong",
}


@command("devices", exits=EXITS)
@click.argument("graph", required=False)
@machine_options
@simulated_release_option
@scheduler_options
@table_format_option
@own_option(
    "--log-creation", is_flag=True, help="Instead of the list, print TensorFlow's log line for each GPU device that it creates."
)
@own_option("--gpu-models", is_flag=True, help="List the known GPU models instead.")
def devices_command(graph: str | None, form: str, log_creation: bool, gpu_models: bool, **values: Any) -> int:
    """List the devices of a simulated machine, one per line, CPUs first.

    With GRAPH, list the devices of this graph's machine, with the GPU options of its config.  The columns are full name, type,
    memory limit in bytes and physical description.  The PCI bus ids of a GPU model are those in TensorFlow's guides; a model
    that is not in the guides starts at bus 05.  Each further GPU gets the next bus.

    With --scheduler, list the workers of a Dask cluster instead: address, name, host, threads, memory in bytes, and the
    versions of placesim, Python and numpy, which must be the same on all workers and on this computer.

    \b
    Examples:
      placesim devices --cpu 3 --gpu 2
      placesim devices graphs/towers.yaml --gpu 4
      placesim devices --gpu 8 --gpu-model H100-SXM5-80GB --format json
      placesim devices --gpu 2 --log-creation
      placesim devices --gpu 2 --tensorflow 1.15
      placesim devices --gpu-models
      placesim devices --scheduler tcp://10.0.0.1:8786
    """
    from placesim.api.runs import devices
    from placesim.cli.output import complain, write, write_rows

    connection = take_connection(values)
    if connection.scheduler is not None:
        if graph is not None or log_creation or gpu_models or given(values):
            raise UsageError("--scheduler lists a cluster's workers: expected no graph and no machine options")
        write_rows(_worker_rows(connection), "workers", _WORKER_COLUMNS, form)
        return 0
    if gpu_models:
        if graph is not None:
            raise UsageError(f"--gpu-models lists the whole catalogue: got '{graph}', expected no graph{near_models(graph)}")
        rows: list[dict[str, Any]] = [
            _model_row(name, find_release(values["tensorflow"] or CURRENT.name)) for name in GPU_MODELS
        ]
        write_rows(rows, "gpu_models", _MODEL_COLUMNS, form)
        return 0
    log: list[GpuLogLine] = []
    source = sys.stdin.buffer if graph == "-" else graph
    try:
        found = devices(**values, graph=source, environment=shell_environment(), log=log.append)
    finally:
        for line in log:
            if line.severity != "I":
                complain(f"{line.text}\n")
    told = [line for line in log if line.severity == "I"]
    if log_creation and form == "text":
        write("".join(f"{escape_line(line.text)}\n" for line in told))
    else:
        write_rows([device.attributes for device in found], "devices", _DEVICE_COLUMNS, form, _more(found, told, log_creation))
    return 0


def _more(devices: Sequence[Device], told: Sequence[GpuLogLine], log_creation: bool) -> dict[str, Any]:
    """Return further keys of the JSON object: the settings of each GPU's allocator, and the log."""
    allocators = [{"device": device.name, **_allocator_row(device)} for device in devices if device.gpu is not None]
    return ({"allocators": allocators} if allocators else {}) | ({"log": [line.text for line in told]} if log_creation else {})


def _allocator_row(device: Device) -> dict[str, Any]:
    assert device.gpu is not None
    fields = device.gpu._asdict()
    return {"name": device.gpu.name, **fields, "model": device.gpu.model.name}


def _worker_rows(connection: Connection) -> list[dict[str, Any]]:
    from placesim.runtime.cluster.cluster_setup import open_cluster

    # differences between the workers must be shown, not refused
    with open_cluster(connection, is_checked=False) as cluster:
        return [offer.attributes for offer in cluster.offers]


def _model_row(name: str, release: Release) -> dict[str, Any]:
    model = GPU_MODELS[name]
    return {
        "name": name,
        "memory": model.memory,
        "memory_limit": gpu_memory_limit(model, release=release),
        "compute_capability": model.compute_capability,
    }
