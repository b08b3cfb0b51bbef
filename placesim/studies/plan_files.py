"""Conversion of device requests, of a plan or of other edits, to a file: the original text if possible, else raw nodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from placesim.core.errors import InternalError, PlacesimError, UsageError
from placesim.core.files.writer import join_pieces
from placesim.core.releases import CURRENT, find_release
from placesim.formats.device_annotations import assign_devices
from placesim.graph.node_patterns import gradient_scope
from placesim.planning.graphs.plan_annotations import clear_requests, devices_by_name, find_misplaced_nodes
from placesim.planning.graphs.requests_by_name import request_words
from placesim.studies.plan_functions import DeviceRequests, function_text, plan_requests
from placesim.studies.simulation.settings import session_config, with_machine
from placesim.studies.simulation.simulation import SimulationStage, simulate

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.graph import Graph
    from placesim.graph.session_steps import Config, GraphFile
    from placesim.inspection.explaining.annotations import Changes
    from placesim.inspection.snapshot import Snapshot
    from placesim.machine.options import SimulationOptions
    from placesim.placement.placer import Placement
    from placesim.planning.graphs.plan_comparison import PlanStudy

ENDINGS = (".yaml", ".yml", ".json", ".pb", ".pbtxt", ".onnx", ".py", ".patch", ".diff")
_PATCHES = (".patch", ".diff")
_WRITTEN_FIELDS = (
    *("allow_soft_placement", "device_count", "do_constant_folding"),
    *("inter_op_parallelism_threads", "intra_op_parallelism_threads"),
)
"""Fields of the config that a file takes from the options."""
MAX_NAMED = 3


def check_ending(path: Path) -> None:
    """Raise UsageError for a path without the extension of a graph format."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"unknown extension: got '{path}', expected one of {', '.join(ENDINGS)}")


def check_source(loaded: LoadedGraph, path: Path) -> None:
    """Raise UsageError for a path whose format needs an ONNX model or a script. The command calls this before the search."""
    if path.suffix.lower() in _PATCHES and loaded.file is not None and not loaded.file.graph.file.endswith(".py"):
        raise UsageError(f"only a Python script can be patched: got a graph file for '{path}', expected a .py")
    if path.suffix.lower() == ".onnx" and loaded.file is not None and loaded.onnx is None:
        raise UsageError(
            f"only ONNX input can be written as .onnx: got a graph of another format for '{path}', expected an ONNX model"
        )


def write_planned_content(
    loaded: LoadedGraph,
    options: SimulationOptions,
    study: PlanStudy,
    free: Sequence[str],
    path: Path,
    tell: Callable[[str], None],
) -> Iterator[bytes]:
    """Yield the bytes of a plan's file, as `write_requests` does. The plan drops the requests of nodes that match `free`."""
    return write_requests(loaded, options, plan_requests(study, free), path, tell)


def write_requests(
    loaded: LoadedGraph, options: SimulationOptions, requests: DeviceRequests, path: Path, tell: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield the bytes of a file with the requests of a plan or of other edits, in the format of the path's extension.

    `tell` receives a sentence about requests that the file cannot express, or about weights that it lacks.

    The machine and soft placement are included. Raises InternalError if TensorFlow's placer would not reproduce the placement.
    Raises UsageError for an unknown extension, for an extension that needs an ONNX model or a script, and for a patch without a
    changed line.
    """
    from placesim.formats.graph_file.parsing.yaml_tree import read_tree
    from placesim.formats.graph_file.writing.raw_writer import graph_file_parts, with_feeds_from, yaml_lines
    from placesim.formats.tensorflow.graph_def import write_graph_def
    from placesim.report.document import json_text
    from placesim.studies.conversions import onnx_content, weights_left_behind

    check_ending(path)
    check_source(loaded, path)
    ending = path.suffix.lower()
    assert loaded.file is not None
    if loaded.onnx is not None and ending != ".onnx":
        loaded.onnx.check_weights()
    file = planned_for(loaded.file, options)
    base = with_feeds_from(clear_requests(file, requests.free), loaded.directory, path.parent)
    full = assign_devices(base, requests.asked)
    placed = _placed(loaded, options, full)
    _check(placed, requests)
    if ending in _PATCHES:
        return iter([_patch_text(loaded, options, requests, placed, path, tell).encode()])
    if ending == ".py":
        written, wrong = function_text(file, placed, requests, path.stem)
        if wrong:
            lines = _lines_in_the_way(file.graph, wrong, placed)
            scopes = "scopes of the script request other devices"
            tell(f"{path} cannot place {_named('node', wrong)} as planned, because {lines or scopes}")
        return iter([written.encode()])
    text = _own_text(loaded, options, base, requests, placed) if ending in (".yaml", ".yml", ".json") else None
    match ending:
        case ".onnx":
            if left := weights_left_behind(loaded, path):
                tell(left)
            return onnx_content(assign_devices(base, devices_by_name(placed)), loaded.onnx).pieces
        case ".pb" | ".pbtxt":
            return iter([write_graph_def(full, text=ending == ".pbtxt")])
        case ".json":
            pieces = json_text(graph_file_parts(full) if text is None else read_tree(text, full.graph.file))
        case _:
            pieces = yaml_lines(full) if text is None else iter([text])
    return (piece.encode() for piece in join_pieces(pieces))


def _patch_text(
    loaded: LoadedGraph,
    options: SimulationOptions,
    requests: DeviceRequests,
    planned: Placement,
    path: Path,
    tell: Callable[[str], None],
) -> str:
    """Return the patch of a script, after a run of the patched script has shown where it places its nodes."""
    from placesim.formats.script_graph import read_script_graph
    from placesim.formats.sources.scripts import record_script
    from placesim.planning.graphs.scope_edits import initializer_groups
    from placesim.studies.plan_patches import absolute_texts, patch_script

    assert loaded.file is not None
    graph, words = loaded.file.graph, request_words(planned.device_set)
    where = {name: device for name, device in devices_by_name(planned).items() if name in graph.ids}
    patch = patch_script(graph, {edit: words[device] for edit, device in requests.edits.items()}, where)
    if patch.texts:
        recorded = record_script(graph.file, options, sources=absolute_texts(patch))
        again = planned_for(read_script_graph(recorded, graph.registry), options)
    else:
        again = planned_for(loaded.file, options)
    groups = initializer_groups(graph)  # they follow the variables
    wrong = [name for name in find_misplaced_nodes(_placed(loaded, options, again), where) if name not in groups]
    lines = _lines_in_the_way(graph, wrong, planned, patch.changes)
    others = [lines] if lines else []
    if wrong and not patch.texts:
        edits = f"got {_named('edit', patch.left)}, expected scopes that a `with` opens"
        refused = f"no line of the script can express the plan: {edits}; {_other_ways(patch.left)}"
        raise UsageError("; ".join([refused, *others]))
    if wrong:
        tell("; ".join([f"{path}: {patch_note(patch.left, wrong)}", *others]))
    return patch.diff()


def _lines_in_the_way(graph: Graph, wrong: Sequence[str], planned: Placement, changes: Changes = MappingProxyType({})) -> str:
    """Return a clause about the `tf.device` lines of a script that give the nodes `wrong` other devices than planned, or "".

    `changes` has the lines with a new device.
    """
    from placesim.inspection.explaining.annotations import Annotations
    from placesim.machine.device_names import parse_runtime_name
    from placesim.studies.plan_patches import requested_parts

    annotations, where = Annotations(graph, is_raw=True), devices_by_name(planned)
    lines: Counter[str] = Counter()
    for name in wrong:
        device = parse_runtime_name(where[name])
        for line, part in requested_parts(annotations.origins(graph.node(name)), changes):
            if device and not part.matches(device):
                lines[f"{line.location} requests {changes.get(line, line.text)}"] += 1
    told = ", ".join(f"{line} for {count:,} of these nodes" for line, count in lines.items())
    return f"{told}: change or remove {'these lines' if len(lines) > 1 else 'this line'}" if lines else ""


def patch_note(edits: Sequence[str], wrong: Sequence[str]) -> str:
    """Return a note about `wrong`, the nodes that a patch leaves on other devices, and about their edits.

    `edits` have no line in the script. Their nodes may still be placed as planned, such as gradients colocated with layers.
    """
    left = [edit for edit in edits if any(edit == "*" or f"{node}/".startswith(edit) for node in wrong)]
    told = [f"no line can express {_named('edit', left)}"] if left else []
    are = "are" if len(wrong) > 1 else "is"
    return "; ".join([*told, f"{_named('node', wrong)} {are} not on the planned device", _other_ways(left)])


def _other_ways(edits: Sequence[str]) -> str:
    """Return a clause about other ways to place the nodes of edits that no line of a script can express."""
    others = "`--output FILE.py` writes a device function"
    if not edits or not all(map(gradient_scope, edits)):
        return others
    return f"`colocate_gradients_with_ops=True` where the script makes gradients puts them with their layers, and {others}"


def _named(kind: str, names: Sequence[str]) -> str:
    named = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    return f"{len(names):,} {kind}{'s' if len(names) != 1 else ''} ({named})"


def planned_snapshot(loaded: LoadedGraph, options: SimulationOptions, study: PlanStudy, free: Sequence[str]) -> Snapshot:
    """Return the placement of a graph with the plan's devices. Raises TensorFlow's error if it can't be placed."""
    from placesim.inspection.snapshot import snapshot_of

    assert loaded.file is not None
    file = assign_devices(clear_requests(planned_for(loaded.file, options), free), study.asked)
    outcome = simulate(replace(loaded, file=file), options, SimulationStage.PARTITIONED)
    if outcome.error is not None:
        raise outcome.error
    return snapshot_of(study.name, outcome)


def planned_for(file: GraphFile, options: SimulationOptions) -> GraphFile:
    """Return the file with the machine, the links and the session's config that the options give."""
    config = session_config(file, options)
    own = replace(file.config, **{field: getattr(config, field) for field in _WRITTEN_FIELDS})
    return replace(with_machine(file, replace(options, profile=())), config=own)


def _placed(loaded: LoadedGraph, options: SimulationOptions, file: GraphFile) -> Placement:
    outcome = simulate(replace(loaded, file=file), options, SimulationStage.PLACED)
    if outcome.error is not None:
        raise outcome.error
    return outcome.placed_graphs[-1]


def _check(placed: Placement, requests: DeviceRequests) -> None:
    from placesim.planning.graphs.scope_edits import initializer_groups

    # the nodes that group initializers follow the variables
    where = {node: device for node, device in devices_by_name(placed).items() if node in requests.places}
    groups = initializer_groups(placed.graph)
    for node, device in where.items():
        if device not in requests.places[node] and node not in groups:
            raise InternalError(f"{node} would be placed on {device}, not on its planned device {min(requests.places[node])}")


def _own_text(
    loaded: LoadedGraph, options: SimulationOptions, base: GraphFile, requests: DeviceRequests, placed: Placement
) -> str | None:
    """Return the text of a graph file with the plan's requests; None if the file has no text or can't express them."""
    from placesim.formats.graph_file.reader import read_graph_file
    from placesim.formats.graph_file.writing.text_edits import EditableText, UneditableText
    from placesim.planning.graphs.requests_by_name import text_by_name
    from placesim.planning.graphs.scope_edits import annotated_text

    own = loaded.file
    if loaded.text is None or own is None or own.is_raw:
        return None
    try:
        source = loaded.text.replace("\r\n", "\n")
        text = machine_text(source, own, base, options)
        text = EditableText(text).with_files(dict(zip(_files(own), _files(base), strict=True)))
        written = annotated_text(text, base, requests.asked, placed.device_set, soft=placed.groups.soft)
        if written is None:
            # if all requests are dropped, rows should not override those that the text still has
            is_free = not any(node.device for node in base.graph.nodes)
            texts = [text, EditableText(text).without_devices()] if is_free else [text]
            by_name = [text_by_name(own_text, base, placed, soft=placed.groups.soft) for own_text in texts]
            written = min((found for found in by_name if found is not None), key=lambda found: found.count("\n"), default=None)
        if written is None:
            return None
        again = read_graph_file(written, base.graph.file, base.graph.registry)
        _check(_placed(loaded, options, again), requests)
    except (UneditableText, PlacesimError):
        return None
    is_same = (again.config, again.links.entries, _files(again)) == (base.config, base.links.entries, _files(base))
    if not is_same or _machine_document(again) != _machine_document(base):
        return None
    return written if source == loaded.text else written.replace("\n", "\r\n")


def machine_text(source: str, own: GraphFile, base: GraphFile, options: SimulationOptions) -> str:
    """Return the text of the file `own` with the machine, the links, the session's config and the release of `base`.

    Raises UneditableText if the text cannot be changed.
    """
    from placesim.formats.graph_file.parsing.yaml_tree import read_tree
    from placesim.formats.graph_file.sections.links import link_document, link_row
    from placesim.formats.graph_file.sections.overrides import parse_links
    from placesim.formats.graph_file.writing.text_edits import EditableText

    text, release = EditableText(source), base.graph.registry.rules
    values: dict[str, Any] = {} if base.inventory in (own.inventory, None) else {"devices": _machine_document(base)}
    if (CURRENT if text.release is None else find_release(text.release)) is not release:
        values["tensorflow"] = release.name
    edited = text.with_machine(values, _config_changes(own.config, base.config))
    if base.links.entries == own.links.entries:
        return edited
    old = json.loads(json.dumps(read_tree(source, own.graph.file).get("links", ())))  # without the places in the text
    rows = dict(zip(own.links.entries, old, strict=True))
    rows |= zip(parse_links(options.link), map(link_row, options.link), strict=True)
    return EditableText(edited).with_links(old, [rows.get(entry) or link_document(entry) for entry in base.links.entries])


def _machine_document(file: GraphFile) -> Any:
    """Return the machine as the value of `devices` in a document. Equal machines have equal values."""
    from placesim.formats.graph_file.writing.raw_writer import devices_document

    return None if file.inventory is None else devices_document(file.inventory)


def _config_changes(own: Config, planned: Config) -> dict[str, Any]:
    """Return the fields of `config` that the options changed, in the form of a graph file."""
    from placesim.formats.graph_file.writing.text_edits import ABSENT

    changes = {field: getattr(planned, field) for field in _WRITTEN_FIELDS if getattr(own, field) != getattr(planned, field)}
    if "device_count" in changes:
        changes["device_count"] = dict(planned.device_count) or ABSENT
    if "do_constant_folding" in changes:
        others = {"place_pruned_graph": True} if own.place_pruned_graph else {}
        changes["graph_options"] = others | {"optimizer_options": {"do_constant_folding": changes.pop("do_constant_folding")}}
    return changes


def _files(file: GraphFile) -> list[str]:
    """Return the files used as feeds, in order."""
    from placesim.graph.session_steps import FileFeed

    return [feed.value.path for step in file.steps or () for feed in step.feeds if isinstance(feed.value, FileFeed)]
