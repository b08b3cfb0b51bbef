"""Comparison of a node's device in an older release with that in the current one; the rules that differ are in section 13."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from placesim.core.releases import CURRENT, Release
from placesim.graph.graph import Graph, Node
from placesim.inspection.explaining.edits import Setting
from placesim.inspection.explaining.trials import NODE_BUDGET, place_setting
from placesim.machine.inventory import DeviceSet
from placesim.ops.kernel_lookup import find_kernel
from placesim.ops.registry import load_registry
from placesim.placement.placer import Placement
from placesim.placement.xla_types import XLA_TYPES


class _Rule(NamedTuple):
    """A rule that differs between releases and may affect devices: its field, and a sentence about the current release."""

    field: str
    sentence: str


_RULES = (
    _Rule("prefers_local_devices", "local devices come before remote devices of the same type (3.6c)"),
    _Rule("loops_follow_inputs", "a lowered While requests the devices of its inputs (13.16)"),
    _Rule("labels_ends_of_calls", "a call's boundary nodes are colocated with their inputs (13.15)"),
    _Rule("keeps_labels_of_bodies", "nodes of an inlined body keep their colocation labels (13.15)"),
    _Rule("callers_override_tasks", "nodes of a body complete partial devices from the call's device (13.15)"),
    _Rule("ties_nested_devices", "compatible devices are merged over a colocating edge (5.6.2)"),
    _Rule("ties_datasets", "an edge between datasets colocates them (5.6)"),
    _Rule("labelled_nodes_hold_their_name", "a node's name is always a colocation label (5.7)"),
    _Rule("keeps_variants_on_host", "readers of a host-only variant are on the CPU (5.12)"),
    _Rule("excludes_xla_types", "XLA devices are used only on request (5.11)"),
    _Rule("identities_follow_inputs", "an Identity between equal requests follows its input (6.3 B2)"),
)


@dataclass(frozen=True, slots=True)
class ReleaseDifference:
    """The differences between the current release and an older release for a node.

    `rules` has sentences about rules, each with the device that results if only this rule changes. `kernels` has the device
    types with a kernel in the current release; None if these are the same types as in the older release.
    """

    release: str
    rules: tuple[tuple[str, str], ...]
    kernels: tuple[str, ...] | None


class ReleaseTrials:
    """Trials that place a setting of an older release; each replaces a single rule by the rule of the current release.

    There are no trials for large graphs, or if the setting has the current release.
    """

    def __init__(self, setting: Setting, placement: Placement) -> None:
        self._setting = setting
        self._placement = placement
        self._release = setting.graph.registry.rules

    def difference(self, name: str) -> ReleaseDifference | None:
        """Return the differences for a node of the placed graph; None if nothing differs."""
        if self._release is CURRENT or self._placement.error is not None:
            return None
        node = self._placement.graph.node(name)
        before = self._placement.devices[node.id]
        rules = []
        for rule, placed in self._placed:
            found = placed.devices[placed.graph.ids[name]] if name in placed.graph.ids and placed.error is None else before
            if found is not None and before is not None and found.name != before.name:
                rules.append((rule.sentence, found.name))
        kernels = self._other_kernels(node)
        return ReleaseDifference(CURRENT.name, tuple(rules), kernels) if rules or kernels is not None else None

    @cached_property
    def _placed(self) -> list[tuple[_Rule, Placement]]:
        differing = [rule for rule in _RULES if getattr(self._release, rule.field) != getattr(CURRENT, rule.field)]
        if len(differing) * max(1, sum(self._setting.sizes)) > NODE_BUDGET:
            return []
        return [(rule, self._place(self._release._replace(**{rule.field: getattr(CURRENT, rule.field)}))) for rule in differing]

    def _place(self, release: Release) -> Placement:
        old = self._setting.devices
        devices = DeviceSet(old.devices, old.local, old.priorities, release)
        return place_setting(replace(self._setting, graph=_under(self._setting.graph, release), devices=devices))

    def _other_kernels(self, node: Node) -> tuple[str, ...] | None:
        """Return the device types (except XLA's) with a kernel in the current release; None if both releases agree."""
        types = [kind for kind in self._setting.devices.types if kind not in XLA_TYPES]
        registries = (self._setting.graph.registry, load_registry())
        if node.signature.definition is None or registries[1].op(node.op) is None:
            return None
        attrs = node.signature.attrs
        here, there = (tuple(t for t in types if find_kernel(r, node.op, t, attrs, node.name)) for r in registries)
        return None if here == there else there


def _under(graph: Graph, release: Release) -> Graph:
    """Return a copy of a graph with the rules and ops of another release."""
    made = copy(graph)
    made.registry = graph.registry.under(release)
    return made
