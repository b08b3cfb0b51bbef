"""Removal of device types for which only XLA compiles, unless they were requested (5.11)."""

from __future__ import annotations

from placesim.placement.colocation import ColocationGraph
from placesim.placement.constraints import COMPOSITE, Constraints

XLA_TYPES = ("XLA_CPU", "XLA_GPU", "TPU", "XLA_CPU_JIT", "XLA_GPU_JIT", "XLA_TPU_JIT")


def exclude_xla_types(groups: ColocationGraph) -> None:
    """Remove XLA's device types from every group that requests no such type and has other types."""
    if not any(device_type in XLA_TYPES for device_type in groups.devices.types):
        return
    constraints, parent = groups.constraints, groups.parent
    known: dict[Constraints, Constraints] = {}  # keeps shared constraints shared
    for node_id in groups.order:
        # only the constraints of a root count (5.1)
        if parent[node_id] == node_id:
            found = constraints[node_id]
            constraints[node_id] = known.get(found) or known.setdefault(found, without_xla_types(found))


def without_xla_types(found: Constraints) -> Constraints:
    """Return the constraints without XLA's device types, unless one is requested or no other type remains."""
    # such a request is only met if XLA's types stay (5.11)
    if any(spec.type == COMPOSITE or spec.type in XLA_TYPES for spec in found.specs):
        return found
    types = tuple(pair for pair in found.types if pair[0] not in XLA_TYPES)
    return found.with_types(types) if types and types != found.types else found
