"""The workspaces that cuDNN's algorithms for convolutions may need, and what they add to a peak."""

from __future__ import annotations

from io import BytesIO

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.prediction.work_amounts import Convolution
from placesim.prediction.workspaces import workspace_limit, workspaces
from placesim.studies.memory_study import study_memory

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # AlexNet's second convolution, one of two groups: 27x27 results of 5x5 filters are one tile of the FFT
        (
            Convolution(256, 96, 27, 27, 256, 5, 5, 1, 1, 27, 27, 2),
            [48 * 25 * 729 * 4, (256 * (48 + 128) * 49 + 48 * 128) * 64 * 4, (256 * (48 + 128) + 48 * 128) * 32 * 17 * 8],
        ),
        # strides leave only the patches of an image
        (Convolution(8, 64, 56, 56, 64, 3, 3, 2, 2, 28, 28), [64 * 9 * 784 * 4]),
        # the images of a filter of 1x1 are the patches
        (Convolution(8, 64, 56, 56, 64, 1, 1, 1, 1, 56, 56), []),
    ],
)
def test_workspaces_follow_from_sizes(sizes: Convolution, expected: list[int]) -> None:
    assert list(workspaces(sizes, 4)) == expected


def test_the_limit_is_tensorflows() -> None:
    assert workspace_limit({}) == 4096 * MIB
    assert workspace_limit({"TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "16"}) == 16 * MIB
    assert workspace_limit({"TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "all"}) == 4096 * MIB


GRAPH = """
devices: {cpu: 1, gpu: {count: 1, memory: 1GiB}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 32, 32, 16]}
  - {op: Placeholder, name: f, dtype: float32, shape: [3, 3, 16, 16]}
  - {op: Conv2D, name: y, inputs: [x, f], attrs: {strides: [1, 1, 1, 1], padding: SAME}, device: /gpu:0}
fetch: [y]
"""


def test_a_peak_is_an_interval() -> None:
    sizes = {}
    for limit in ("1", "4096"):
        options = make_options({"batch": 8, "environment": {"TF_CUDNN_WORKSPACE_LIMIT_IN_MB": limit}})
        cpu, gpu = study_memory(load(BytesIO(GRAPH.encode()), "g.yaml", options), options, "g.yaml").devices
        assert cpu.most is None
        assert gpu.most is not None
        sizes[limit] = gpu.most - gpu.needed.peak
    largest = [
        max(size for size in workspaces(Convolution(8, 16, 32, 32, 16, 3, 3, 1, 1, 32, 32), 4) if size <= most)
        for most in (MIB, 4096 * MIB)
    ]
    assert list(sizes.values()) == largest
