"""The version of a script's control flow: Switch and Merge (version 1), or calls of functions (version 2)."""

from __future__ import annotations

_is_version_2 = False


def is_version_2() -> bool:
    """`tf.control_flow_v2_enabled`."""
    from placesim.tf1.graphs.graph import get_default_graph

    # graphs of functions always have version 2, whatever the script chose
    return _is_version_2 or get_default_graph().control_flow_is_version_2


def enable_control_flow_v2() -> None:
    """`tf.enable_control_flow_v2`."""
    global _is_version_2
    _is_version_2 = True


def disable_control_flow_v2() -> None:
    """`tf.disable_control_flow_v2`."""
    global _is_version_2
    _is_version_2 = False


control_flow_v2_enabled = is_version_2
