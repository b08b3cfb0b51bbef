"""Reader of a graph file from text, or from a Python mapping of the same form.

Entries of `nodes` become nodes while the text is still being read, so that the tree of a large file never exists as a whole. If
`raw` or `functions` follow `nodes`, the file is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from placesim.core.errors import UsageError
from placesim.core.escaping import escape_line
from placesim.core.process.gc_pause import collector_paused
from placesim.core.releases import find_release
from placesim.formats.graph_file.entries.entries import Entries
from placesim.formats.graph_file.entries.functions import FunctionReader
from placesim.formats.graph_file.entries.limits import EntryLimits
from placesim.formats.graph_file.entries.raw_nodes import RawNodes
from placesim.formats.graph_file.parsing import yaml_tree
from placesim.formats.graph_file.plain_values import bool_value, bytes_value, int_value, text_value
from placesim.formats.graph_file.sections.config import read_config
from placesim.formats.graph_file.sections.devices import read_devices
from placesim.formats.graph_file.sections.links import read_links
from placesim.formats.graph_file.sections.placement import read_placement
from placesim.formats.graph_file.sections.steps import NodeTaker, StepReader
from placesim.formats.problems import WRONG, FileProblems, InvalidValue, own_position, spell, value_position
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Config, GraphFile, GraphStep
from placesim.machine.inventory import TaskInventory
from placesim.machine.links import NO_LINKS
from placesim.ops.registry import Registry, load_registry

if TYPE_CHECKING:
    from placesim.formats.graph_file.parsing.entry_templates import AlikeEntries

FILE_KEYS = (
    "name",
    "description",
    "tensorflow",
    "devices",
    "links",
    "config",
    "nodes",
    "run",
    "fetch",
    "feed",
    "functions",
    "placement",
    "raw",
    "versions",
    "rest",
    "marks",
)
_OUTPUTS = {
    ("mapping", "placements"): "place` or `run",
    ("bounds", "critical_path"): "simulate",
    ("objective", "placements"): "plan",
    ("fits", "executed"): "memory",
    ("scopes", "repeats"): "show",
    ("groups", "error"): "explain",
    ("moved", "folded"): "diff",
    ("keys", "rows"): "sweep",
    ("findings",): "check",
}
"""Keys of the JSON objects of commands, none of which is a graph file."""
_SHORT_LETTERS = 1 << 11
"""Length of text below which imports for faster reading take longer than they save."""
VERSION_KEYS = ("producer", "min_consumer")
_INT32 = 1 << 31


def read_graph_file(source: str | bytes, name: str | None = None, registry: Registry | None = None) -> GraphFile:
    """Read the text of a graph file; `name` is the file's name in messages. Raises GraphFileError with all problems."""
    file = name or "<text>"
    text = yaml_tree.decode_utf8(source, file) if isinstance(source, bytes) else source
    with collector_paused():
        return _TextReader(text, file, registry).read()


def graph_file_from_mapping(mapping: Mapping[str, Any], name: str = "<mapping>", registry: Registry | None = None) -> GraphFile:
    """Read a graph file given as Python's dicts, lists and numpy arrays. Raises GraphFileError with all problems."""
    with collector_paused():
        content = _Content(name, registry)
        return content.finish(dict(mapping) if isinstance(mapping, Mapping) else mapping)


def take_pieces(text: str, start: int, number: int, taker: _EntryStream) -> Iterator[tuple[int, int]]:
    """Read entries as `sequence_splitting.take_pieces` does; those of a short text are left to the parser."""
    if len(text) < _SHORT_LETTERS:
        return iter(())
    from placesim.formats.graph_file.parsing import sequence_splitting

    return sequence_splitting.take_pieces(text, start, number, taker)


class _EntryStream(yaml_tree.Sequence):
    """The sequence under `nodes`, which passes on each entry instead of storing it."""

    __slots__ = ("_take", "_taker")

    def __init__(self, taker: Entries | RawNodes) -> None:
        super().__init__()
        self._taker = taker
        self._take = taker.take

    @property
    def alike(self) -> AlikeEntries | None:
        return self._taker.alike if isinstance(self._taker, Entries) else None

    def append(self, entry: Any) -> None:
        marks = self.marks
        if entry.__class__ is yaml_tree.Mapping:
            self._take(entry)
        else:
            self._take(entry, yaml_tree.pack_mark(marks[-1]))
        del marks[1:]


class _TextReader:
    """A reader of a text. It reads the text again if keys after `nodes` change the meaning of `nodes`."""

    def __init__(self, text: str, file: str, registry: Registry | None) -> None:
        self._text = text
        self._file = file
        self._registry = registry
        self._content = _Content(file, registry)
        self._head: dict[Any, Any] | None = None

    def read(self) -> GraphFile:
        tree = yaml_tree.read_tree(self._text, self._file, self._open_sequence, take_pieces)
        if self._content.is_begun and not self._content.is_begun_with(tree):
            self._content, self._head = _Content(self._file, self._registry), tree
            tree = yaml_tree.read_tree(self._text, self._file, self._open_sequence, take_pieces)
        return self._content.finish(tree)

    def _open_sequence(self, root: Any, key: Any) -> list[Any] | None:
        if key != "nodes" or root.__class__ is not yaml_tree.Mapping:
            return None
        head = root if self._head is None else self._head
        self._content.begin(head, head.get("raw") is True if "raw" in head or self._head else _seems_raw(self._text))
        return _EntryStream(self._content.taker)


def _seems_raw(text: str) -> bool:
    """Whether a file seems to be raw. A converted graph, in which `raw` is last, is then not read twice."""
    return "\nraw: true" in text or '"raw": true' in text


class _Content:
    """The content of one file, so far. Without a `registry`, the file names the release of its ops."""

    def __init__(self, file: str, registry: Registry | None) -> None:
        self._file = file
        self._given = registry
        self._registry: Registry
        self._problems = FileProblems(file)
        self.is_begun = False
        self._is_raw = self._has_functions = self._leaves_marks = False
        self.graph: Graph
        self.taker: Entries | RawNodes

    def is_begun_with(self, tree: dict[Any, Any]) -> bool:
        """Whether `nodes` were read with the settings that the whole tree gives."""
        found = (tree.get("raw") is True, "functions" in tree, tree.get("marks") is True, self._registry_of(tree))
        return found == (self._is_raw, self._has_functions, self._leaves_marks, self._registry)

    def _registry_of(self, tree: dict[Any, Any]) -> Registry:
        """Return the given registry, else that of the release in `tensorflow`, else the current release's."""
        if self._given is not None:
            return self._given
        try:
            return load_registry(find_release(tree["tensorflow"]).name) if "tensorflow" in tree else load_registry()
        except UsageError:
            return load_registry()

    def begin(self, head: dict[Any, Any], is_raw: bool) -> None:
        """Prepare to read `nodes`, with the release, the functions and the marks that `head` gives."""
        self._registry = self._registry_of(head)
        self.is_begun, self._is_raw, self._has_functions = True, is_raw, "functions" in head
        self._leaves_marks = head.get("marks") is True
        reader = FunctionReader(self._registry, self._problems, self._leaves_marks)
        functions = reader.read(head.get("functions", ()), value_position(head, "functions") if self._has_functions else 0)
        builder = ScopedGraphBuilder(self._registry, functions, self._file)
        builder.last_number = reader.bodies.last_number
        builder.leaves_marks = self._leaves_marks
        self.graph = builder.graph
        limits = EntryLimits(library=functions, broken=reader.bodies.broken)
        self.taker = RawNodes(self.graph, self._problems) if is_raw else Entries(builder, self._problems, limits=limits)

    def finish(self, tree: Any) -> GraphFile:
        """Finish the file after its whole tree is read. Raises GraphFileError with all problems."""
        problems = self._problems
        self._check_root(tree)
        if not self.is_begun:
            self.begin(tree, tree.get("raw") is True)
        problems.unknown_keys(tree, FILE_KEYS, "a graph file")
        for key in ("raw", "marks"):
            problems.read(tree, key, partial(bool_value, what=f"'{key}'"), None)
        self._check_release(tree)
        self._finish_nodes(tree)
        if "placement" in tree:
            read_placement(tree["placement"], value_position(tree, "placement"), self.graph, problems)
        self.graph.versions = self._versions(tree)
        inventory = read_devices(tree["devices"], value_position(tree, "devices"), problems) if "devices" in tree else None
        links = NO_LINKS
        if "links" in tree:
            links = read_links(tree["links"], value_position(tree, "links"), inventory or (TaskInventory(),), problems)
        config = read_config(tree["config"], value_position(tree, "config"), problems) if "config" in tree else Config()
        steps = self._steps(tree, self.taker)
        name = self._text(tree, "name", escape_line(PurePath(self._file).stem))
        description = self._text(tree, "description", "")
        rest = problems.read_or_default(tree, "rest", _rest_value, b"")
        problems.raise_if_any()
        return GraphFile(
            name,
            self.graph,
            description,
            inventory,
            links,
            config,
            steps,
            is_raw=self._is_raw,
            rest=rest,
            doubts=problems.doubts,
        )

    def _finish_nodes(self, tree: dict[Any, Any]) -> None:
        """Make the nodes that were not made while the text was read."""
        if "nodes" not in tree:
            is_inventory = "devices" in tree and tree.keys() <= {"devices", "links"}
            got = "an inventory, an option for --inventory" if is_inventory else "a file without the key 'nodes'"
            self._problems.add(
                own_position(tree), f"no nodes: got {got}, expected {'nodes' if is_inventory else 'a graph file'}"
            )
        elif not isinstance(tree["nodes"], _EntryStream):
            self.taker.take_all(tree["nodes"], value_position(tree, "nodes"))
        self.taker.finish()

    def _check_release(self, tree: dict[Any, Any]) -> None:
        if "tensorflow" not in tree:
            return
        try:
            find_release(tree["tensorflow"])
        except UsageError as error:
            self._problems.add(value_position(tree, "tensorflow"), str(error))

    def _check_root(self, tree: Any) -> None:
        if isinstance(tree, dict):
            for keys, command in _OUTPUTS.items():
                if all(key in tree for key in keys):
                    self._problems = FileProblems(self._file)  # every other key would be a problem, too
                    message = f"not a graph file: got the JSON output of `placesim {command}`, expected a graph"
                    self._problems.add(own_position(tree), message)
                    self._problems.raise_if_any()
            return
        position = own_position(tree) or yaml_tree.FIRST_POSITION
        if tree is None:
            self._problems.add(position, "empty file: got nothing, expected a mapping with 'nodes'")
        else:
            self._problems.add(position, f"not a graph file: got {spell(tree)}, expected a mapping with 'nodes'")
        self._problems.raise_if_any()

    def _text(self, tree: dict[Any, Any], key: str, default: str) -> str:
        found: str = self._problems.read_or_default(tree, key, lambda value: text_value(value, f"'{key}'"), default)
        return found

    def _versions(self, tree: dict[Any, Any]) -> dict[str, int]:
        if "versions" not in tree:
            return {}
        versions = self._problems.mapping_at(tree, "versions")
        self._problems.unknown_keys(versions, VERSION_KEYS, "'versions'")
        found = {
            key: self._problems.read(versions, key, partial(int_value, low=0, high=_INT32 - 1, what=f"'{key}'"), WRONG)
            for key in VERSION_KEYS
        }
        return {key: version for key, version in found.items() if version is not WRONG}

    def _steps(self, tree: dict[Any, Any], taker: NodeTaker) -> tuple[GraphStep, ...] | None:
        reader = StepReader(self.graph, taker, self._problems)
        shorthand = [key for key in ("fetch", "feed") if key in tree]
        if "run" not in tree:
            return (reader.read_step(tree, shorthand),) if shorthand else None
        for key in shorthand:
            message = f"conflicting keys: got '{key}' and 'run', expected one of them"
            self._problems.add(yaml_tree.key_position(tree, key), message)
        return reader.read(tree["run"], value_position(tree, "run"))


def _rest_value(value: Any) -> bytes:
    if isinstance(value, dict) and list(value) == ["bytes"]:
        return bytes_value(value["bytes"])
    raise InvalidValue(f"wrong type of 'rest': got {spell(value)}, expected {{bytes: BASE64}}")
