"""The purposes of the buffers at a peak: parameters, optimizer, activations, gradients and temporaries."""

from __future__ import annotations

from io import BytesIO

import pytest

from placesim.formats.sources.loading import load
from placesim.inspection.memory_categories import MemoryCategories
from placesim.machine.options import make_options
from placesim.runtime.accounting.usage import Holder
from placesim.studies.memory_study import study_memory

GRAPH = """
devices: {cpu: 1, gpu: {count: 1, model: Tesla K80}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 256]}
  - {variable: w, shape: [256, 256], initializer: zeros, device: /cpu:0}
  - scope: net
    device: /gpu:0
    nodes:
      - {op: MatMul, name: h, inputs: [x, w]}
      - {op: Square, name: s, inputs: [h]}
      - {op: Mean, name: loss, inputs: [s, [0, 1]]}
  - {train: {minimize: net/loss, optimizer: {Adam: {learning_rate: 0.1}}}, name: train}
  - {initializer: init}
run: [{fetch: [init]}, {fetch: [train]}]
"""
BYTES = 256 * 256 * 4


def test_each_buffer_has_one_purpose() -> None:
    options = make_options({"batch": 1024})
    study = study_memory(load(BytesIO(GRAPH.encode()), "g.yaml", options), options, "g.yaml")
    cpu, gpu = study.devices
    for device in study.devices:
        assert sum(device.categories.values()) == device.needed.peak
    # w, its two slots and the two powers, which only the update reads
    assert (cpu.categories["parameters"] // BYTES, cpu.categories["optimizer"]) == (1, 2 * BYTES + 8)
    # the copy of w on the GPU; x and h; the gradient of h; the GPU's own memory
    assert gpu.categories["parameters"] // BYTES == 1
    assert gpu.categories["activations"] == 2 * 1024 * 256 * 4
    assert gpu.categories["gradients"] // (1024 * 256 * 4) >= 1
    assert gpu.categories["temporaries"] == 1280


@pytest.mark.parametrize(
    ("kind", "powers"), [("ref", 8), ("resource", 0)]
)  # a resource shares the constant that it starts from
def test_moments_that_a_sparse_update_assigns_belong_to_the_optimizer(kind: str, powers: int) -> None:
    text = f"""
devices: {{cpu: 1, gpu: 0}}
nodes:
  - {{op: Placeholder, name: ids, dtype: int32, shape: [4]}}
  - {{variable: e, shape: [100, 8], kind: {kind}}}
  - {{op: GatherV2, name: rows, inputs: [e, ids, 0]}}
  - {{op: Square, name: s, inputs: [rows]}}
  - {{op: Mean, name: loss, inputs: [s, [0, 1]]}}
  - {{train: {{minimize: loss, optimizer: {{Adam: {{learning_rate: 1e-3}}}}}}, name: train}}
  - {{initializer: init}}
run: [{{fetch: [init]}}, {{fetch: [train]}}]
"""
    options = make_options({})
    study = study_memory(load(BytesIO(text.encode()), "g.yaml", options), options, "g.yaml")
    assert study.devices[0].categories["optimizer"] == 2 * 100 * 8 * 4 + powers


def test_memory_of_one_kernel_and_initial_values_are_temporary() -> None:
    options = make_options({"batch": 4})
    file = load(BytesIO(GRAPH.encode()), "g.yaml", options).file
    assert file is not None
    categories = MemoryCategories(file.graph)
    for since, until, expected in (
        ("net/h", "net/h", "temporaries"),
        ("w/Initializer/zeros", "w/Assign", "temporaries"),
        ("w/read/_3", "net/h", "parameters"),
        ("net/h", "net/s", "activations"),
        ("gradients/net/s_grad/Mul", "", "gradients"),
    ):
        assert categories.of(Holder(since, 1, 1, since, until, "")) == expected
