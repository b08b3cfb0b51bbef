"""Execution of `placesim run script.py`: the script replaces the process of placesim."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from placesim.cli.command import current_settings, is_from_environment, own_options
from placesim.machine.gpu_options import shell_environment
from placesim.machine.options import MACHINE, make_options

_OF_GRAPHS = (
    "tag",
    "signature",
    "checkpoint",
    "checkpoint_every",
    "restart",
    "clear_devices",
    "device",
    "layer_assignment",
    "allow_unknown",
    "fetch",
    "feeds",
    "until",
)
"""Options that select or change parts of a graph.

With any of these options, `run` executes the graph that the script builds, not the script.
"""


def is_live(graph: str, form: str, values: Mapping[str, Any], **wanted: Any) -> bool:
    """Whether to run a Python file as a program: true if no option needs its graph or asks for a report."""
    if os.path.isdir(graph):
        return False
    is_asked = any(values.get(name) for name in _OF_GRAPHS) or form != "text" or any(wanted.values())
    return not is_asked


def run_live(path: str, values: Mapping[str, Any], log_filters: Sequence[str], *, log_creation: bool) -> int:
    """Run a script, in this process if the system allows that. Raises GraphFileError if the file does not exist."""
    from placesim.formats.sources.loading import read_bytes
    from placesim.formats.sources.scripts import script_command

    read_bytes(path)
    asked = {name: value for name, value in values.items() if name not in MACHINE or not is_from_environment(name)}
    options = {"environment": shell_environment(), **asked}
    make_options(options)
    settings = current_settings()
    job = {
        "purpose": "run",
        "options": {name: value for name, value in options.items() if name != "arguments"},
        "log_filters": list(log_filters),
        "log_creation": log_creation,
        "debug": settings.debug,
        "quiet": settings.quiet,
        "command_options": own_options(),
    }
    return _become(script_command(path, job, settings.script_arguments))


def _become(command: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    from placesim.core.operating_system import REPLACES_PROCESSES
    from placesim.core.process.interrupts import default_interrupts, is_own_process

    if REPLACES_PROCESSES and is_own_process():
        default_interrupts()
        os.execv(command[0], list(command))
    import subprocess

    return subprocess.call(command)
