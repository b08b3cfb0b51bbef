"""Models of ONNX: what is read, by which names, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.errors import GraphFileError
from placesim.formats.recognition import Format, recognise
from tests.formats.onnx.models import info, model, node, run, tensor


def layer() -> Any:
    """`z = relu(x w + b)`, with weights that are large enough to be taken out of the bytes."""
    weights = np.linspace(-1, 1, 4 * 300, dtype=np.float32).reshape(4, 300)
    nodes = [node("Gemm", "x w b", "y", name="/fc/Gemm"), node("Relu", "y", "z")]
    return model(
        nodes, [info("x", ["n", 4])], [info("z", ["n", 300])], tensor("w", weights), tensor("b", np.ones(300, np.float32))
    )


def test_a_model_runs_by_the_names_of_its_inputs_and_outputs() -> None:
    proto = layer()
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    weights = np.linspace(-1, 1, 4 * 300, dtype=np.float32).reshape(4, 300)
    np.testing.assert_allclose(run(proto, {"x": x})["z"], np.maximum(x @ weights + 1, 0), rtol=1e-5)


def test_ops_stand_in_the_scope_of_their_node() -> None:
    log = placesim.place(io.BytesIO(layer().SerializeToString())).text()
    for name in ("x: (Placeholder)", "w: (Const)", "fc/Gemm/MatMul: (MatMul)", "fc/Gemm/AddV2: (AddV2)", "Relu/Relu: (Relu)"):
        assert name in log


def test_large_weights_are_views_of_the_bytes() -> None:
    from placesim.formats.onnx.reader import read_onnx

    data = layer().SerializeToString()
    graph = read_onnx(data, "layer.onnx").file.graph
    held = graph.nodes[graph.ids["w"]].attrs["value"].array
    assert np.shares_memory(held, np.frombuffer(data, np.uint8))


def test_a_model_is_known_by_its_bytes(tmp_path: Path) -> None:
    data = layer().SerializeToString()
    assert recognise(data).format is Format.ONNX
    path = tmp_path / "weights.bin"
    path.write_bytes(data)
    assert placesim.place(path).text()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Nonsense", "x", "y", name="odd")], "node 'odd' (Nonsense, node 0): op 'Nonsense' has no row"),
        ([node("Relu", "nowhere", "y")], "node without a name (Relu, node 0): no value 'nowhere'"),
        ([node("Relu", "x", "y"), node("Relu", "x", "y")], "node without a name (Relu, node 1): value 'y' given twice"),
    ],
)
def test_what_is_wrong_is_said_of_the_node(nodes: list[Any], message: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        run(model(nodes, [info("x", [2])], [info("y", [2])]))
    assert message in str(caught.value)
