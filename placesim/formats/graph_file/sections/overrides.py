"""Readers of options that use the notation of graph files: an inventory, links, and feeds as YAML literals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from placesim.core.errors import GraphFileError, UsageError
from placesim.formats.graph_file.parsing.yaml_tree import decode_utf8, read_tree
from placesim.formats.graph_file.sections.devices import read_devices
from placesim.formats.graph_file.sections.links import parse_link, read_links
from placesim.formats.graph_file.sections.steps import StepReader
from placesim.formats.problems import FileProblems, InvalidValue, own_position, value_position
from placesim.graph.graph import Graph, split_tensor_name
from placesim.graph.session_steps import Feed, FileFeed
from placesim.machine.gpu_models import GPU_MODELS
from placesim.machine.inventory import TaskInventory
from placesim.machine.links import NO_LINKS, LinkEntry, MachineLinks


def read_inventory(
    source: bytes | Mapping[str, Any], file: str = "inventory", *, is_profile: bool = False
) -> tuple[tuple[TaskInventory, ...], MachineLinks]:
    """Read a document with `devices` and optional `links`. Raises GraphFileError with all its problems.

    A profile has no links, and figures of a host or a GPU model.
    """
    kind, keys = ("a profile", ("devices",)) if is_profile else ("an inventory", ("devices", "links"))
    tree = dict(source) if isinstance(source, Mapping) else read_tree(decode_utf8(source, file), file)
    problems = FileProblems(file)
    root = problems.mapping({} if tree is None else tree, own_position(tree), kind)
    problems.unknown_keys(root, keys, kind)
    if not problems and "devices" not in root:
        problems.add(own_position(tree), "no devices: expected the key 'devices'")
    problems.raise_if_any()
    inventory = read_devices(root["devices"], value_position(root, "devices"), problems)
    if is_profile and not any(task.host or GPU_MODELS.get(task.gpu_model.name) != task.gpu_model for task in inventory):
        message = "no figures in a profile: expected 'host', or a 'gpu' whose model has figures"
        problems.add(value_position(root, "devices"), message)
    links = NO_LINKS
    if "links" in root:
        links = read_links(root["links"], value_position(root, "links"), inventory, problems)
    problems.raise_if_any()
    return inventory, links


def parse_links(texts: Sequence[str]) -> tuple[LinkEntry, ...]:
    """Parse links of the form `ENDS=BANDWIDTH[@LATENCY]`. Raises UsageError."""
    try:
        return tuple(map(parse_link, texts))
    except InvalidValue as wrong:
        raise UsageError(str(wrong)) from None


def parse_feed(text: str) -> tuple[str, Any]:
    """Parse `NAME=VALUE`; the value is a YAML literal or `@FILE.npy`. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"wrong feed: got '{text}', expected NAME=VALUE or NAME=@FILE.npy")
    if value.startswith("@"):
        return name.strip(), FileFeed(str(Path(value[1:]).absolute()))
    try:
        return name.strip(), read_tree(value, f"--feed {name.strip()}")
    except GraphFileError as error:
        raise UsageError(error.message) from None


class _PlainNames:
    """The node names of a finished graph, for feeds."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def take_all(self, entries: Any, position: int = 0) -> None:
        """Do nothing, as an option adds no nodes."""

    def finish(self) -> None:
        """Do nothing, as an option adds no nodes."""

    def tensor_names(self, text: str) -> list[str] | None:
        names = self._graph.spelled_out(text)
        return list(names) if split_tensor_name(names[0])[0] in self._graph.ids else None


def read_feeds(graph: Graph, feeds: Mapping[str, Any]) -> tuple[Feed, ...]:
    """Read feeds by tensor name; values are as in a file's `feed`, or arrays. Raises UsageError with all problems."""
    problems = FileProblems("feed")
    step = StepReader(graph, _PlainNames(graph), problems).read_step({"feed": dict(feeds)}, ("feed",))
    problems.raise_usage_error()
    return step.feeds
