"""An annotation that is changed gives the nodes that the file gives when that line is changed in it."""

from __future__ import annotations

import pytest

from placesim.formats.graph_file.reader import read_graph_file
from placesim.graph.graph import Graph
from placesim.inspection.explaining.annotations import AnnotationKind, Annotations

SCOPES = """devices: {cpu: 4}
nodes:
  - device: /job:localhost
    nodes:
      - scope: outer
        device: /cpu:1
        nodes:
          - {op: Const, name: a, value: 1.0}
          - {op: Add, name: b, inputs: [a, 2.0]}
          - {op: Neg, name: c, inputs: [b], device: /cpu:2}
          - device: null
            nodes:
              - {op: Neg, name: free, inputs: [b]}
  - {op: Neg, name: with_b, inputs: [outer/b], colocate_with: [outer/b]}
"""
TOWERS = """nodes:
  - device: [/cpu:0, /cpu:1]
    nodes:
      - {op: Const, name: a, value: 1.0}
      - {op: Neg, name: b, inputs: [a]}
"""
VARIABLES = """nodes:
  - {variable: v, shape: [2], initializer: zeros, device: '/cpu:1'}
  - {variable: r, shape: [2], kind: resource, initializer: zeros, device: '/cpu:1'}
  - {op: Const, name: near, value: 1.0, colocate_with: [v]}
  - {op: Const, name: other, value: 1.0, device: '/cpu:1'}
"""
TRAINED = """nodes:
  - device: /gpu:2
    nodes:
      - {variable: w, shape: [4, 4]}
      - {op: MatMul, name: y, inputs: [w, w]}
  - {op: Mean, name: loss, inputs: [y, [0, 1]]}
  - {train: {minimize: loss, optimizer: {Momentum: {learning_rate: 0.1, momentum: 0.9}}}, name: train}
  - {initializer: init}
"""
CHANGES = [
    # text, kind, node, old line, new line, new device
    (SCOPES, AnnotationKind.SCOPE, "outer/a", "device: /cpu:1", "device: /cpu:3", "/cpu:3"),
    (SCOPES, AnnotationKind.SCOPE, "outer/a", "        device: /cpu:1\n", "", ""),
    (SCOPES, AnnotationKind.SCOPE, "outer/a", "  - device: /job:localhost\n", "  - device: ''\n", "outermost"),
    (SCOPES, AnnotationKind.ENTRY, "outer/c", ", device: /cpu:2", ", device: /cpu:0", "/cpu:0"),
    (SCOPES, AnnotationKind.ENTRY, "outer/c", ", device: /cpu:2", "", ""),
    (TOWERS, AnnotationKind.SCOPE, "b_1", "/cpu:1", "/cpu:3", "/cpu:3"),
    (VARIABLES, AnnotationKind.VARIABLE, "v", "zeros, device: '/cpu:1'}", "zeros}", ""),
    (
        VARIABLES,
        AnnotationKind.VARIABLE,
        "r",
        "resource, initializer: zeros, device: '/cpu:1'}",
        "resource, initializer: zeros}",
        "",
    ),
    (VARIABLES, AnnotationKind.ENTRY, "other", "1.0, device: '/cpu:1'}", "1.0, device: '/cpu:2'}", "/cpu:2"),
]


def devices(graph: Graph) -> dict[str, str]:
    return {node.name: node.device for node in graph.nodes}


@pytest.mark.parametrize(("text", "kind", "node", "old", "new", "device"), CHANGES)
def test_a_changed_annotation_is_a_changed_line(
    text: str, kind: AnnotationKind, node: str, old: str, new: str, device: str
) -> None:
    graph = read_graph_file(text, "g.yaml").graph
    annotations = Annotations(graph)
    found = [annotation for annotation in annotations.origins(graph.node(node)) if annotation.kind == kind]
    annotation, device = (found[-1], "") if device == "outermost" else (found[0], device)
    changed = annotations.changed(graph, [annotation], {annotation: device})
    assert text.count(old) >= 1
    edited = read_graph_file(text.replace(old, new, 1), "g.yaml").graph
    assert devices(changed) == devices(edited)
    assert devices(changed) != devices(graph)


def test_changing_leaves_the_graph_as_it_was() -> None:
    graph = read_graph_file(TOWERS, "g.yaml").graph
    before = devices(graph)
    annotations = Annotations(graph)
    annotations.changed(graph, annotations.all(), dict.fromkeys(annotations.all(), ""))
    assert devices(graph) == before


def test_all_annotations_in_file_order() -> None:
    graph = read_graph_file(VARIABLES, "g.yaml").graph
    assert [(str(a.location), str(a)) for a in Annotations(graph).all()] == [
        ("g.yaml:2:5", "colocation of v/Initializer/zeros with v"),
        ("g.yaml:2:59", "device /cpu:1 of v"),
        ("g.yaml:3:5", "colocation of r/Initializer/zeros with r"),
        ("g.yaml:3:75", "device /cpu:1 of r"),
        ("g.yaml:4:5", "colocation of near with v"),
        ("g.yaml:5:5", "device /device:CPU:1 of other"),
    ]


def test_a_copied_request_is_the_line_that_wrote_it() -> None:
    graph = read_graph_file(TRAINED, "g.yaml").graph
    annotations = Annotations(graph)
    requested = [node for node in graph.nodes if node.device]
    assert len(requested) > 5
    assert {str(a.location) for node in requested for a in annotations.origins(node)} == {"g.yaml:2:13"}
    (annotation,) = annotations.origins(graph.node("train/update_w/ApplyMomentum"))
    changed = annotations.changed(graph, [annotation], {annotation: "/gpu:0"})
    assert devices(changed) == devices(read_graph_file(TRAINED.replace("/gpu:2", "/gpu:0"), "g.yaml").graph)


def test_a_label_is_dropped_alone() -> None:
    graph = read_graph_file(VARIABLES, "g.yaml").graph
    annotations = Annotations(graph)
    (label,) = annotations.labels(graph.node("near"))
    changed = annotations.changed(graph, [label], {label: ""})
    assert changed.node("near").attrs["_class"] == ()
    assert devices(changed) == devices(graph)


def test_nodes_of_a_graph_def_are_each_for_themselves() -> None:
    text = (
        "raw: true\nnodes: [{op: NoOp, name: a, device: '/device:CPU:1'}, {op: NoOp, name: b, device: '/device:CPU:1', "
        "attrs: {_class: ['loc:@a']}}]\n"
    )
    graph = read_graph_file(text, "g.yaml").graph
    annotations = Annotations(graph, is_raw=True)
    (own,) = annotations.origins(graph.node("a"))
    assert devices(annotations.changed(graph, [own], {own: "/device:CPU:0"})) == {"a": "/device:CPU:0", "b": "/device:CPU:1"}


def test_a_colocated_node_inside_a_scope_of_its_own_copies_its_request() -> None:
    text = """nodes:
  - device: /gpu:0
    nodes:
      - {op: Const, name: a, value: 1.0}
  - device: /gpu:0
    nodes:
      - {op: Neg, name: b, inputs: [a], colocate_with: a}
"""
    graph = read_graph_file(text, "g.yaml").graph
    annotations = Annotations(graph)
    (annotation,) = annotations.origins(graph.node("b"))
    assert str(annotation.location) == "g.yaml:2:13"
    changed = annotations.changed(graph, [annotation], {annotation: "/gpu:1"})
    assert devices(changed) == devices(read_graph_file(text.replace("/gpu:0", "/gpu:1", 1), "g.yaml").graph)
