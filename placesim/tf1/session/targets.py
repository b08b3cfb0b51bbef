"""Targets of a session beside this process's own machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from placesim.tf1.errors import NotFoundError

if TYPE_CHECKING:
    from placesim.graph.session_steps import Config
    from placesim.machine.program_machine import Machine

FindTarget = Callable[[str, "Config", "Machine"], Any]
_finders: dict[str, FindTarget] = {}
_resets: dict[str, Callable[[str, Any], None]] = {}


def register_target(prefix: str, find: FindTarget, reset: Callable[[str, Any], None] | None = None) -> None:
    """Have targets that begin so (`grpc://`) open what `find` gives: an `OpenedMachine`, or raise."""
    _finders[prefix] = find
    if reset is not None:
        _resets[prefix] = reset


def find_target(target: str, config: Config, machine: Machine) -> Any:
    """The machine that a target names.  Raises NotFoundError where there is none."""
    return _of(_finders, target)(target, config, machine)


def reset_target(target: str, containers: object) -> None:
    """Forget the resources of a target of other processes.  Raises NotFoundError where there is no such target."""
    if target:
        _of(_resets, target)(target, containers)


def _of(known: Mapping[str, Any], target: str) -> Any:
    for prefix, found in known.items():
        if target.startswith(prefix):
            return found
    raise NotFoundError(
        None,
        None,
        f'No session factory registered for the given session options: {{target: "{target}"}} Registered factories are '
        "{GRPC_SESSION, DIRECT_SESSION}.",
    )
