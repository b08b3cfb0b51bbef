"""Simulated machine for the sessions of a Python program: from `placesim.machine`, else from environment variables.

with placesim.machine(gpu=2):
    session = tf.Session()
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Unpack

from placesim.core.errors import UsageError
from placesim.machine.gpu_memory import GpuProcess
from placesim.machine.gpu_options import shell_environment
from placesim.machine.options import MACHINE, OptionValues, SimulationOptions, make_options

VARIABLES = {f"PLACESIM_{name.upper()}": name for name in MACHINE}
"""Environment variables and the options that they set."""
_COUNTS = ("cpu", "gpu")


@dataclass(frozen=True)
class Machine:
    """The simulation options of a program's sessions; sessions of one process share its GPUs.

    `is_overridden` is set if a command line sets the numbers of devices and so overrides the program.
    """

    options: SimulationOptions
    process: GpuProcess = field(default_factory=GpuProcess)
    is_overridden: bool = False


_entered: list[Machine] = []
_of_environment: dict[tuple[tuple[str, str], ...], Machine] = {}
_overriding: dict[str, Any] = {}


@contextmanager
def machine(**values: Unpack[OptionValues]) -> Iterator[Machine]:
    """Context whose sessions run on this machine; options are named like the command line's flags.

    Threads started inside the context also use this machine.  Raises UsageError for an invalid option.
    """
    entered = Machine(make_options({"environment": shell_environment(), **values}))
    _entered.append(entered)
    try:
        yield entered
    finally:
        _entered.remove(entered)


def current_machine() -> Machine:
    """Return the machine of the innermost `machine` context, else the machine that environment variables describe.

    Raises UsageError for invalid variables.
    """
    found = _entered[-1] if _entered else _environment_machine()
    if not _overriding:
        return found
    is_overridden = any(name in _overriding for name in _COUNTS)
    return replace(found, options=_overridden(found.options), is_overridden=is_overridden)


def override_machines(values: Mapping[str, Any]) -> None:
    """Apply a command line's options to every machine from now on; they override the options of the program."""
    make_options(values)
    _overriding.update(values)


def _overridden(options: SimulationOptions) -> SimulationOptions:
    known = {option.name: getattr(options, option.name) for option in fields(SimulationOptions)}
    return make_options(known | _overriding)


def _environment_machine() -> Machine:
    given = tuple((name, os.environ[name]) for name in VARIABLES if os.environ.get(name))
    if given not in _of_environment:
        values = {VARIABLES[name]: _number(name, text) if VARIABLES[name] in _COUNTS else text for name, text in given}
        _of_environment[given] = Machine(make_options({"environment": shell_environment(), **values}))
    return _of_environment[given]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"wrong {name}: got '{text}', expected a number of devices")
    return int(text)
