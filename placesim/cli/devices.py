"""`placesim devices`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from placesim.cli.options import debug_option, format_option, machine_options
from placesim.devices.catalogue import GPU_MODELS
from placesim.devices.inventory import gpu_memory_limit
from placesim.escapes import escape_line

_DEVICE_COLUMNS = ("name", "type", "memory limit", "physical description")
_MODEL_COLUMNS = ("name", "memory", "memory limit", "compute capability")


@click.command("devices")
@machine_options
@format_option
@click.option("--gpu-models", is_flag=True, help="List the catalogue of GPU models instead.")
@debug_option
def devices_command(form: str, gpu_models: bool, **machine: Any) -> int:
    """List the devices of a simulated machine, one a line, CPUs first.

    In a pipe: full name, type, memory limit in bytes and physical description, with tabs between.  PCI bus ids are those of the
    guides' machines; any other GPU follows on the bus after the last one, or from bus 05 on.

    \b
    Examples:
      placesim devices --cpu 3 --gpu 2
      placesim devices --gpu 8 --gpu-model H100-SXM5-80GB --format json
      placesim devices --gpu-models
    """
    from placesim.simulation import devices

    if gpu_models:
        rows: list[dict[str, Any]] = [_model_row(name) for name in GPU_MODELS]
        _print(rows, "gpu_models", _MODEL_COLUMNS, form)
    else:
        _print([device._asdict() for device in devices(**machine)], "devices", _DEVICE_COLUMNS, form)
    return 0


def _model_row(name: str) -> dict[str, Any]:
    model = GPU_MODELS[name]
    return {
        "name": name,
        "memory": model.memory,
        "memory_limit": gpu_memory_limit(model),
        "compute_capability": model.compute_capability,
    }


def _print(rows: Sequence[dict[str, Any]], key: str, columns: Sequence[str], form: str) -> None:
    from placesim.cli.output import is_terminal, write

    if form == "json":
        from placesim.report.document import json_line

        write(json_line({key: rows}))
    elif is_terminal(sys.stdout):
        from placesim.report.terminal import table

        write(table(columns, [tuple(map(str, row.values())) for row in rows], sys.stdout), is_styled=True)
    else:
        write("".join("\t".join(escape_line(str(cell)) for cell in row.values()) + "\n" for row in rows))
