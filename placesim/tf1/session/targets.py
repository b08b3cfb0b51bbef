"""Session targets other than this process's machine."""

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
    """Register a handler for targets with a prefix (`grpc://`): `find` returns an `OpenedMachine` or raises."""
    _finders[prefix] = find
    if reset is not None:
        _resets[prefix] = reset


def find_target(target: str, config: Config, machine: Machine) -> Any:
    """Return the machine of a session target.  Raises NotFoundError for an unknown target."""
    return _of(_finders, target)(target, config, machine)


def reset_target(target: str, containers: object) -> None:
    """Drop the resources of a remote target.  Raises NotFoundError for an unknown target."""
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
