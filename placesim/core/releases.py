"""The releases of TensorFlow that placesim speaks, and what sets them apart: a row of rules for each.

Whoever acts on such a rule reads it from the release that it was given, with the registry of ops or the machine; nothing asks
which release it is.  A rule has the number that it has in `placesim manual placement`; section 13 there lists the differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from placesim.core.errors import UsageError


class Release(NamedTuple):
    """A release: what it is called, and for each rule that is not the same in all of them what it says.

    `name` is how it is asked for, `version` its full one, `producer` the version of GraphDef that it writes.
    """

    name: str
    version: str
    producer: int
    xla_cpus: int = 0
    """Default number of XLA_CPU devices of a task (3.1)."""
    xla_before_gpus: bool = False
    """Whether a task's XLA devices are made before its GPUs (3.1)."""
    reserves_by_capability: bool = True
    """Whether what is left to the system of a GPU's memory depends on its compute capability, or is a share of it (10.3.3)."""
    created_gpu: str = "Created device {name} with {mb} MB memory:  -> {description}"
    """Log line for each created GPU (10.2.2)."""
    prefers_local_devices: bool = True
    """Whether of two devices of one type the one of the session's own task is taken (3.6c)."""
    checks_attrs_without_kernel: bool = True
    """Whether a node without any kernel is held to its op's definition before its kernels are spoken of (4.3)."""
    excludes_xla_types: bool = True
    """Whether types that only XLA compiles for are left to those who ask for them (5.11)."""
    inputs_precede_bodies: bool = True
    """Whether the identities of a call's inputs are numbered before the body that takes its place, or behind it (6.5)."""
    loops_follow_inputs: bool = True
    """Whether what a lowered `While` makes for an input asks for that input's device, or for the loop's."""
    labels_ends_of_calls: bool = True
    """Whether the identities of a call's inputs and outputs are labelled with what they read (5.7)."""
    keeps_labels_of_bodies: bool = True
    """Whether the nodes of a body that takes its call's place keep their labels (5.7)."""
    resources_go_round: bool = False
    """Whether a lowered `While` takes resources round, as tensors, or hands them in once."""
    callers_override_tasks: bool = False
    """Whether a call's job, replica and task hold for its body's nodes, and not its whole device where theirs is open."""
    ties_nested_devices: bool = False
    """Whether an edge that ties takes two devices to be at odds where neither is a specification of the other (5.6.2)."""
    ties_datasets: bool = True
    """Whether an edge between two ops of datasets ties them (5.6)."""
    keeps_variants_on_host: bool = True
    """Whether an op that reads a variant which only a host can hold is held to the CPU (5.12)."""
    labelled_nodes_hold_their_name: bool = True
    """Whether the name of a node with a label of its own is a label too (5.7)."""
    identities_follow_inputs: bool = True
    """Whether an identity between equal requests goes where its input is (6.3 B2)."""
    copies_constants: bool = True
    """Whether a small constant that several CPUs read is copied to each of them (8.13)."""
    control_constant: str = "{node}/ctrl"
    """Name of the constant that replaces a cut control edge, before its number (8.5)."""
    no_kernel: str = "used by {node} with these attrs"
    """Description of a node without a supported device (4.4)."""
    tied_by: str = "a reference or resource connection"
    """Name of an edge that ties two nodes which can't be together (5.6.3)."""
    edge_ends: str = "The edge src node is name='{source}' (op='{source_op}'), and the dst node is name='{node}' (op='{op}')."
    """Description of an edge between devices that conflict and cannot change (5.6.2)."""
    devices_of_node: str = "requested: '{requested}', assigned: '{assigned}'"
    """Text between the braces of `device` in a node's debug string (5.9)."""
    spells_out_nodes: bool = False
    """Whether Python shows a message with the places of the nodes in it, their scopes and what they read (0.4)."""
    share_cluster_devices: str = "share_cluster_devices_in_session"
    """The setting to try where an assigned device is not there (5.3b)."""


CURRENT = Release("2.21", "2.21.0", 2474)
"""The release that is spoken where none is asked for."""
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
"""By name."""


def find_release(given: Any) -> Release:
    """The release of a name such as `1.15`, of its full version, or of that name as the number that YAML makes of it.

    Raises UsageError for any other.
    """
    text = str(given) if isinstance(given, str | float) and not isinstance(given, bool) else ""
    for release in RELEASES.values():
        if text.strip() in (release.name, release.version):
            return release
    known = " or ".join(sorted(RELEASES))
    raise UsageError(f"unknown release of TensorFlow: got {given!r}, expected {known}")
