"""Reader of SavedModel directories of TensorFlow 1 and 2: the MetaGraph with some tags, and its variables' values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from placesim.core.checkpoints.checkpoint import index_path
from placesim.core.errors import GraphFileError, Location, NotFoundError, Problem
from placesim.core.files.containment import resolve_inside
from placesim.core.protobuf_wire import BYTES, fields, last_message
from placesim.formats.recognition import MODEL_FILES, find_model_file
from placesim.formats.tensorflow.file_bytes import file_bytes
from placesim.formats.tensorflow.graph_def import file_errors
from placesim.formats.tensorflow.messages import Buffer, as_binary, parse
from placesim.formats.tensorflow.meta_graph import MetaGraph, read_meta_graph
from placesim.formats.tensorflow.restoring import add_checkpoint_values
from placesim.ops.registry import Registry

SERVE = "serve"
_META_GRAPHS, _META_INFO = 2, 1
_VARIABLES = Path("variables", "variables")


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A MetaGraph of a SavedModel, whose file has the variables' values as `initial_values`.

    `asset_files` has the file for each tensor that is fed with a file name.
    """

    meta_graph: MetaGraph
    directory: Path
    asset_files: dict[str, Path]


def read_saved_model(directory: str | Path, tags: Iterable[str] = (), registry: Registry | None = None) -> SavedModel:
    """Read the MetaGraph with exactly these tags.

    Without tags, read the only MetaGraph, or the one with the tag `serve`. Raises GraphFileError, NotFoundError, and
    DataLossError for variables with a wrong checksum.
    """
    root = Path(directory)
    path = find_model_file(root)
    if path is None:
        expected = f"{{{root / MODEL_FILES[0]}|{MODEL_FILES[1]}}}"
        raise NotFoundError(f"SavedModel file does not exist at: {root}/{expected}")
    meta_graph = read_saved_model_file(file_bytes(resolve_inside(path, root)), str(path), tags, registry)
    meta_graph = replace(meta_graph, file=replace(meta_graph.file, name=root.resolve().name))
    files = {tensor: resolve_inside(root / "assets" / file, root) for tensor, file in meta_graph.assets.items()}
    return SavedModel(_with_values(meta_graph, root), root, files)


def read_saved_model_file(
    data: Buffer, name: str, tags: Iterable[str] = (), registry: Registry | None = None, is_text: bool | None = None
) -> MetaGraph:
    """Read a SavedModel's MetaGraph from the bytes or text of its file, without values. Raises GraphFileError."""
    with file_errors(name):
        chosen = _choose(_meta_graphs(as_binary("SavedModel", data, is_text)), tuple(dict.fromkeys(tags)), name)
    return read_meta_graph(chosen, name, registry, is_text=False)


def _meta_graphs(data: Buffer) -> list[tuple[tuple[str, ...], Buffer]]:
    """Return the MetaGraphs as views of the data, each with its tags."""
    view = memoryview(data)
    found: list[tuple[tuple[str, ...], Buffer]] = []
    for field in fields(view):
        if field.number == _META_GRAPHS and field.wire_type == BYTES:
            info = last_message(view, _META_INFO, field.value_start, field.end)
            message = parse("MetaInfoDef", b"" if info is None else view[info.value_start : info.end])
            found.append((tuple(message.tags), view[field.value_start : field.end]))
    return found


def _choose(meta_graphs: list[tuple[tuple[str, ...], Buffer]], tags: tuple[str, ...], name: str) -> Buffer:
    wanted = set(tags or (SERVE,))
    if not tags and len(meta_graphs) == 1:
        return meta_graphs[0][1]
    for own, data in meta_graphs:
        if set(own) == wanted:
            return data
    available = "; ".join(f"{{ {', '.join(own)} }}" for own, _ in meta_graphs[:50])
    message = f"Could not find meta graph def matching supplied tags: {{ {' '.join(sorted(wanted))} }}, with available tags: "
    raise GraphFileError((Problem(Location(name, 0, 0), f"{message}{available or 'none'}", "NotFoundError"),))


def _with_values(meta_graph: MetaGraph, root: Path) -> MetaGraph:
    prefix = root / _VARIABLES
    if not index_path(prefix).exists():
        return meta_graph
    return replace(meta_graph, file=add_checkpoint_values(meta_graph.file, prefix, meta_graph.restore_op, root))
