"""Graphs to look at, as YAML, and their pictures."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from placesim.formats.sources.loading import load
from placesim.inspection.picturing.picture import Picture, picture_of
from placesim.inspection.snapshot import Snapshot, snapshot_of
from placesim.machine.options import make_options
from placesim.studies.simulation.simulation import SimulationStage, simulate


def towers_text(towers: int, layers: int) -> str:
    """Towers on GPUs that share variables on the CPU: forward, gradients, and an update.

    These are `8 * towers * layers + 9 * layers + towers` nodes.
    """
    lines = ["config: {allow_soft_placement: true}", "nodes:", "  - {scope: model, device: /cpu:0, nodes: ["]
    for layer in range(layers):
        lines += [
            f"      {{scope: layer_{layer}, nodes: [",
            "        {op: VariableV2, name: weights, shape: [64, 64], dtype: float32},",
            "        {op: Identity, name: weights/read, inputs: [weights]},",
            "        {op: VariableV2, name: biases, shape: [64], dtype: float32},",
            "        {op: Identity, name: biases/read, inputs: [biases]}]},",
        ]
    lines.append("    ]}")
    for tower in range(towers):
        lines += _tower(tower, layers)
    lines.append("  - {scope: train, device: /cpu:0, nodes: [")
    for layer in range(layers):
        gradients = [f"tower_{tower}/gradients/layer_{layer}" for tower in range(towers)]
        lines.append(f"      {{scope: layer_{layer}, nodes: [")
        for name in ("weights", "biases"):
            lines.append(f"        {{op: AddN, name: sum_{name}, inputs: [{', '.join(f'{g}/d_{name}' for g in gradients)}]}},")
        lines.append("        {op: Const, name: rate, value: 0.1, device: /gpu:0},")
        for name in ("weights", "biases"):
            inputs = f"model/layer_{layer}/{name}, rate, sum_{name}"
            lines.append(f"        {{op: ApplyGradientDescent, name: apply_{name}, inputs: [{inputs}]}},")
        lines.append("      ]},")
    return "\n".join([*lines, "    ]}"]) + "\n"


def _tower(tower: int, layers: int) -> list[str]:
    lines = [
        f"  - {{scope: tower_{tower}, device: '/gpu:{tower}', nodes: [",
        "      {op: Placeholder, name: images, dtype: float32, shape: [32, 64]},",
    ]
    before = [f"tower_{tower}/images", *(f"tower_{tower}/layer_{layer}/relu" for layer in range(layers))]
    for layer in range(layers):
        lines += [
            f"      {{scope: layer_{layer}, nodes: [",
            f"        {{op: MatMul, name: matmul, inputs: [{before[layer]}, model/layer_{layer}/weights/read]}},",
            f"        {{op: BiasAdd, name: add, inputs: [matmul, model/layer_{layer}/biases/read]}},",
            "        {op: Relu, name: relu, inputs: [add]}]},",
        ]
    lines.append("      {scope: gradients, nodes: [")
    gradient = before[-1]
    for layer in reversed(range(layers)):
        lines += [
            f"        {{scope: layer_{layer}, nodes: [",
            f"          {{op: ReluGrad, name: relu_grad, inputs: [{gradient}, {before[layer + 1]}]}},",
            f"          {{op: MatMul, name: d_weights, inputs: [{before[layer]}, relu_grad], attrs: {{transpose_a: true}}}},",
            "          {op: BiasAddGrad, name: d_biases, inputs: [relu_grad]},",
            f"          {{op: MatMul, name: d_input, inputs: [relu_grad, model/layer_{layer}/weights/read]}},",
            "          {op: Shape, name: shape, inputs: [d_input]}]},",
        ]
        gradient = f"tower_{tower}/gradients/layer_{layer}/d_input"
    return [*lines, "      ]},", "    ]}"]


def snapshot(text: str, name: str = "graph.yaml", **options: Any) -> Snapshot:
    """The snapshot of a graph file's text, with the options of the command line."""
    loaded = load(BytesIO(text.encode()), name)
    assert loaded.error is None, loaded.error
    return snapshot_of(name, simulate(loaded, make_options(options), SimulationStage.PARTITIONED))


def picture(text: str, name: str = "graph.yaml", **options: Any) -> Picture:
    """The picture of a graph file's text."""
    return picture_of(snapshot(text, name, **options))
