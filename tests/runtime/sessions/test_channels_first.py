"""Channels first, and gradients of dilated and grouped convolutions: on a CPU as in oneDNN, on a GPU in every op."""

import pytest

import placesim
from tests.runtime.sessions.graph_cases import FILE, differences
from tests.runtime.sessions.list_cases import read_cases

CASES = {case["id"]: case for case in read_cases(FILE) if case["id"].startswith(("channels-first-", "library-"))}
COMPUTED = {case_id: case for case_id, case in CASES.items() if case["steps"][0]["error"] is None}
REFUSED = {case_id: case for case_id, case in CASES.items() if case_id not in COMPUTED}
REFUSAL = "The Conv2D op currently only supports the NHWC tensor format on the CPU. The op was given the format: NCHW"
ATTRS = {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NCHW"}
GRAPH = {
    "nodes": [
        {"op": "Fill", "name": "x", "inputs": [[1, 3, 4, 5], 1.0]},
        {"op": "Fill", "name": "w", "inputs": [[2, 2, 3, 4], 0.5]},
        {"op": "Conv2D", "name": "c", "inputs": ["x", "w"], "attrs": ATTRS},
        {"op": "AddV2", "name": "added", "inputs": ["c", [[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]},
        {"op": "Relu", "name": "r", "inputs": ["added"]},
    ],
    "run": [{"fetch": ["r"]}],
}


def test_a_cpu_computes_what_onednn_computes() -> None:
    assert len(COMPUTED) == 28
    assert len(REFUSED) == 13
    assert not {case_id: found for case_id, case in CASES.items() if (found := differences(case))}


def test_a_gpu_computes_the_same_and_what_a_cpu_refuses() -> None:
    assert not {case_id: found for case_id, case in COMPUTED.items() if (found := differences(case, gpus=1))}
    for case_id, case in REFUSED.items():
        (text,) = differences(case, gpus=1)
        assert "no error" in text, case_id


@pytest.mark.parametrize("setting", ["0", "False"])
def test_without_onednn_a_cpu_refuses(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", setting)
    with pytest.raises(placesim.PlacesimError, match=REFUSAL):
        placesim.run(GRAPH)
    assert placesim.run(GRAPH, gpu=1)


def test_release_1_15_has_no_onednn() -> None:
    with pytest.raises(placesim.PlacesimError, match="NHWC"):
        placesim.run(GRAPH, tensorflow="1.15")


def test_following_ops_are_fused_into_their_own_layout() -> None:
    (value,) = (result.value for result in placesim.run(GRAPH).results)
    assert value.shape == (1, 4, 3, 4)
    assert value[0, :, 0, 0].tolist() == [7.0, 8.0, 9.0, 10.0]
