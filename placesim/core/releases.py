"""The supported releases of TensorFlow, with the rules that differ between them.

Other code reads a rule from the release of its registry or machine, and never checks which release that is. Rules have the
numbers of `placesim manual placement`; its section 13 lists the differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from placesim.core.errors import UsageError


class Release(NamedTuple):
    """A release of TensorFlow, and its value of each rule that differs between releases.

    `name` is the name that users give, `version` the full version, and `producer` the version of GraphDef that it writes.
    """

    name: str
    version: str
    producer: int
    xla_cpus: int = 0
    """Default number of XLA_CPU devices of a task (3.1)."""
    xla_before_gpus: bool = False
    """Whether a task's XLA devices are made before its GPUs (3.1)."""
    reserves_by_capability: bool = True
    """Whether the GPU memory left to the system depends on the compute capability; if not, it is a fraction (10.3.3)."""
    created_gpu: str = "Created device {name} with {mb} MB memory:  -> {description}"
    """Log line for each created GPU (10.2.2)."""
    prefers_local_devices: bool = True
    """Whether devices of the session's own task are preferred among devices of one type (3.6c)."""
    checks_attrs_without_kernel: bool = True
    """Whether a node without any kernel is checked against its op's definition before the kernel error (4.3)."""
    excludes_xla_types: bool = True
    """Whether device types for XLA compilation are used only for nodes that request them (5.11)."""
    inputs_precede_bodies: bool = True
    """True if the identities of a call's inputs are numbered before the inlined body, False if after it (6.5)."""
    loops_follow_inputs: bool = True
    """Whether nodes that a lowered `While` makes for an input request its device; if not, they request the loop's."""
    labels_ends_of_calls: bool = True
    """Whether the identities of a call's inputs and outputs are colocated with their input (5.7)."""
    keeps_labels_of_bodies: bool = True
    """Whether the nodes of an inlined body keep their colocation labels (5.7)."""
    resources_go_round: bool = False
    """Whether a lowered `While` passes resources around the loop like tensors; if not, resources only enter the loop."""
    callers_override_tasks: bool = False
    """Whether a call's job, replica and task override those of its body's nodes; if not, they only fill gaps."""
    ties_nested_devices: bool = False
    """Whether a colocating edge treats two devices as conflicting if neither is a specification of the other (5.6.2)."""
    ties_datasets: bool = True
    """Whether an edge between two dataset ops colocates them (5.6)."""
    keeps_variants_on_host: bool = True
    """Whether an op that reads a host-only variant is restricted to the CPU (5.12)."""
    labelled_nodes_hold_their_name: bool = True
    """Whether the name of a node with a colocation label is a label too (5.7)."""
    identities_follow_inputs: bool = True
    """Whether an identity between equal requests is placed on its input's device (6.3 B2)."""
    copies_constants: bool = True
    """Whether a small constant that several CPUs read is copied to each of them (8.13)."""
    has_onednn: bool = True
    """Whether CPU kernels are oneDNN's, which also compute images with channels first."""
    control_constant: str = "{node}/ctrl"
    """Name, without its number, of the constant that replaces a cut control edge (8.5)."""
    no_kernel: str = "used by {node} with these attrs"
    """Description of a node without a supported device (4.4)."""
    tied_by: str = "a reference or resource connection"
    """Name of an edge that colocates two incompatible nodes (5.6.3)."""
    edge_ends: str = "The edge src node is name='{source}' (op='{source_op}'), and the dst node is name='{node}' (op='{op}')."
    """Description of an edge between devices that conflict and cannot change (5.6.2)."""
    devices_of_node: str = "requested: '{requested}', assigned: '{assigned}'"
    """Text between the braces after `device` in a node's debug string (5.9)."""
    spells_out_nodes: bool = False
    """Whether Python's messages show the code location, scopes and inputs of each node that they name (0.4)."""
    share_cluster_devices: str = "share_cluster_devices_in_session"
    """Name of the setting that the message suggests if an assigned device does not exist (5.3b)."""


CURRENT = Release("2.21", "2.21.0", 2474)
"""Default release."""
RELEASES = {
    release.name: release
    for release in (
        CURRENT,
        Release(
            "1.15",
            "1.15.5",
            134,
            xla_cpus=1,
            xla_before_gpus=True,
            reserves_by_capability=False,
            created_gpu="Created TensorFlow device ({name} with {mb} MB memory) -> physical GPU ({description})",
            prefers_local_devices=False,
            checks_attrs_without_kernel=False,
            excludes_xla_types=False,
            inputs_precede_bodies=False,
            loops_follow_inputs=False,
            labels_ends_of_calls=False,
            keeps_labels_of_bodies=False,
            resources_go_round=True,
            callers_override_tasks=True,
            ties_nested_devices=True,
            ties_datasets=False,
            keeps_variants_on_host=False,
            labelled_nodes_hold_their_name=False,
            identities_follow_inputs=False,
            copies_constants=False,
            has_onednn=False,
            control_constant="{node}",
            no_kernel="used by {node}with these attrs",
            tied_by="a reference connection",
            edge_ends="The edge src node is {source} , and the dst node is {node}",
            devices_of_node="{assigned}",
            spells_out_nodes=True,
            share_cluster_devices="experimental.share_cluster_devices_in_session",
        ),
    )
}
"""Releases by name."""


def find_release(given: Any) -> Release:
    """Return the release with this name (`1.15`), full version or YAML number. Raises UsageError for any other."""
    text = str(given) if isinstance(given, str | float) and not isinstance(given, bool) else ""
    for release in RELEASES.values():
        if text.strip() in (release.name, release.version):
            return release
    known = " or ".join(sorted(RELEASES))
    raise UsageError(f"unknown release of TensorFlow: got {given!r}, expected {known}")
