"""Reader of all TensorFlow file formats: the graph, its signatures, and accompanying data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from placesim.core.errors import GraphFileError, Location, Problem
from placesim.formats.device_annotations import device_annotations
from placesim.formats.recognition import MODEL_FILES, FileKind, Format, recognise
from placesim.formats.tensorflow.file_bytes import file_bytes
from placesim.formats.tensorflow.graph_def import read_graph_def
from placesim.formats.tensorflow.meta_graph import MetaGraph, read_meta_graph, signature
from placesim.formats.tensorflow.restoring import add_checkpoint_values
from placesim.formats.tensorflow.saved_model import read_saved_model, read_saved_model_file
from placesim.graph.session_steps import Feed, Fetch, GraphFile, GraphStep
from placesim.ops.registry import Registry


@dataclass(frozen=True, slots=True)
class TensorFlowFile:
    """The content of a file of TensorFlow.

    `inputs` and `outputs` map the arguments of the chosen signature to tensors. `annotations` has the number of nodes that
    request each device. `init_op` runs once, before all steps, with the feeds `asset_feeds`; most files have neither.
    """

    file: GraphFile
    format: Format
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, int] = field(default_factory=dict)
    init_op: str = ""
    asset_feeds: Mapping[str, str] = field(default_factory=dict)
    meta_graph: MetaGraph | None = None

    def step(self, feeds: Mapping[str, Any], fetches: Iterable[str] = ()) -> GraphStep:
        """Return a step. Names are the signature's arguments, or tensors. By default, it fetches all outputs."""
        wanted = tuple(fetches) or tuple(self.outputs)
        return GraphStep(
            tuple(Fetch(self.outputs.get(name, name)) for name in wanted),
            tuple(Feed(self.inputs.get(name, name), value) for name, value in feeds.items()),
        )


def read_tensorflow_file(
    path: str | Path,
    *,
    data: bytes | memoryview | None = None,
    tags: Iterable[str] = (),
    signature_name: str | None = None,
    checkpoint: str | Path | None = None,
    registry: Registry | None = None,
    kind: FileKind | None = None,
) -> TensorFlowFile:
    """Read the file or directory at a path, or `data` with the path as its name.

    `checkpoint` is the prefix of the files with the variables' values, or their directory. Without `signature_name`, the
    signature is a SavedModel's `serving_default`, or its only signature. `kind` is the result of `recognise` for `data`.

    Raises UsageError for files that can't be read, and GraphFileError and TensorFlow's errors for invalid files.
    """
    found = _read(path, data, tuple(tags), signature_name, registry, kind)
    if checkpoint is None:
        return found
    restore_op = "" if found.meta_graph is None else found.meta_graph.restore_op
    return replace(found, file=add_checkpoint_values(found.file, checkpoint, restore_op))


def _read(
    path: str | Path,
    data: bytes | memoryview | None,
    tags: tuple[str, ...],
    signature_name: str | None,
    registry: Registry | None,
    kind: FileKind | None,
) -> TensorFlowFile:
    name = str(path)
    if data is None and Path(path).is_dir():
        return _saved_model(Path(path), tags, signature_name, registry)
    content = file_bytes(path) if data is None else data
    form, is_text = kind or recognise(content)
    if form is Format.GRAPH_DEF:
        file = read_graph_def(content, name, registry, is_text=is_text)
        return TensorFlowFile(file, form, annotations=device_annotations(file))
    if form is Format.META_GRAPH:
        return _record(read_meta_graph(content, name, registry, is_text), form, signature_name)
    if form is Format.SAVED_MODEL and data is None and Path(path).name in MODEL_FILES:
        return _saved_model(Path(path).parent, tags, signature_name, registry)
    if form is Format.SAVED_MODEL:
        return _record(read_saved_model_file(content, name, tags, registry, is_text), form, signature_name)
    wanted = "expected a GraphDef, a MetaGraphDef or a SavedModel's directory"
    raise GraphFileError((Problem(Location(name, 0, 0), f"not a TensorFlow graph: got {form.value}, {wanted}"),))


def _saved_model(directory: Path, tags: Iterable[str], name: str | None, registry: Registry | None) -> TensorFlowFile:
    model = read_saved_model(directory, tags, registry)
    found = _record(model.meta_graph, Format.SAVED_MODEL, name)
    return replace(found, asset_feeds={tensor: str(path) for tensor, path in model.asset_files.items()})


def _record(meta_graph: MetaGraph, kind: Format, name: str | None) -> TensorFlowFile:
    file = meta_graph.file
    known = tuple(meta_graph.signatures)
    if name is None:
        name = "serving_default" if "serving_default" in known else known[0] if len(known) == 1 else None
    inputs, outputs = ({}, {}) if name is None else signature(meta_graph, name)
    init_op = meta_graph.init_op if meta_graph.init_op in file.graph.ids else ""
    return TensorFlowFile(file, kind, inputs, outputs, device_annotations(file), init_op, {}, meta_graph)
