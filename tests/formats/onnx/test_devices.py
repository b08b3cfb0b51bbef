"""Devices of ONNX models: what is read of them, and what is written back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import placesim
from placesim.cli import main
from placesim.core.errors import GraphFileError, PlacesimError, UsageError
from placesim.formats.onnx.devices import layer_rules, rule_of
from placesim.formats.onnx.reader import read_onnx
from tests.formats.onnx.models import info, model, node

ENCODER = Path(__file__).parent.parent.parent / "data" / "onnx" / "encoder.onnx"


def chain(*annotate: Any, ir_version: int = 11) -> Any:
    """`x -> a: Relu -> b: Tanh -> c: Sigmoid`; each of `annotate` is given the model."""
    nodes = [node("Relu", "x", "p", name="a"), node("Tanh", "p", "q", name="b"), node("Sigmoid", "q", "y", name="c")]
    proto = model(nodes, [info("x", [2])], [info("y", [2])])
    proto.ir_version = ir_version
    for change in annotate:
        change(proto)
    return proto


def asked(proto: Any, layers: str = "") -> dict[str, str]:
    graph = read_onnx(proto.SerializeToString(), "m.onnx", layers=layer_rules(layers)).file.graph
    return {node.name.partition("/")[0]: node.device for node in graph.nodes if node.op != "Placeholder"}


def configuration(name: str, *devices: str, count: int | None = None) -> Any:
    return lambda proto: proto.configuration.add(
        name=name, num_devices=len(devices) if count is None else count, device=devices
    )


def on(index: int, name: str, numbers: list[int], stage: int | None = None, axis: int | None = None) -> Any:
    """Say of a node that its output lies on devices; split along an axis, where one is given."""

    def change(proto: Any) -> None:
        own = proto.graph.node[index].device_configurations.add(configuration_id=name)
        if numbers:
            spec = own.sharding_spec.add(tensor_name=proto.graph.node[index].output[0], device=numbers)
            if axis is not None:
                spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=len(numbers))
        if stage is not None:
            own.pipeline_stage = stage

    return change


def test_nodes_ask_for_the_device_that_their_tensors_lie_on() -> None:
    proto = chain(configuration("two", "cuda:0", "/device:GPU:1"), on(0, "two", [1]), on(2, "two", [0]), on(1, "other", [1]))
    assert asked(proto) == {"a": "/device:GPU:1", "b": "", "c": "/device:GPU:0"}


def test_a_tensor_on_several_devices_is_no_request() -> None:
    proto = chain(configuration("two", count=2), on(0, "two", [0, 1], axis=0), on(1, "two", [0, 1]), on(2, "two", [1]))
    assert asked(proto) == {"a": "", "b": "", "c": "/device:GPU:1"}


def test_pipeline_stages_are_the_devices_in_their_order() -> None:
    proto = chain(configuration("three", count=3), on(0, "three", [], 2), on(1, "three", [], 7), on(2, "three", [], 2))
    assert asked(proto) == {"a": "/device:GPU:0", "b": "/device:GPU:1", "c": "/device:GPU:0"}


def test_groups_of_devices_are_read() -> None:
    def grouped(proto: Any) -> None:
        spec = proto.graph.node[0].device_configurations[0].sharding_spec[0]
        spec.index_to_device_group_map.add(key=-1, value=[1])

    proto = chain(configuration("two", count=2), on(0, "two", [-1]), grouped)
    assert asked(proto)["a"] == "/device:GPU:1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([configuration("two", "quantum:0", "cpu"), on(0, "two", [0])], "not a TensorFlow device: got 'quantum:0'"),
        ([configuration("two", "cpu", count=2)], "got 1 names for 2 devices"),
        ([configuration("two", count=2), on(0, "two", [5])], "node 'a' (Relu, node 0): no such device: got number 5"),
    ],
)
def test_a_device_that_is_none_is_refused_unless_devices_are_dropped(changes: list[Any], message: str) -> None:
    data = chain(*changes).SerializeToString()
    with pytest.raises(GraphFileError) as caught:
        read_onnx(data, "m.onnx")
    assert message in str(caught.value)
    assert read_onnx(data, "m.onnx", layers=None).annotations == {}


def layered(*layers: str) -> Any:
    def change(proto: Any) -> None:
        for each, layer in zip(proto.graph.node, layers, strict=True):
            if layer:
                each.metadata_props.add(key="layer_ann", value=layer)

    return change


@pytest.mark.parametrize(
    ("rules", "layer", "device"),
    [
        ("gpu(encoder); cpu(=final)", "encoder_layer_3", "/device:GPU:*"),
        ("gpu(encoder); cpu(=final)", "final", "/device:CPU:*"),
        ("gpu(encoder); cpu(=final)", "final_norm", None),
        ("cpu(=encoder); gpu:1(enc)", "encoder", "/device:GPU:1"),  # prefixes come before what is exact
        ("cpu(enc); gpu(encoder)", "encoder", "/device:CPU:*"),  # and else the first counts
        ("GPU:1( a , b );", "b", "/device:GPU:1"),
        ("cuda(a)", "a", "/device:GPU:*"),
        ("/job:worker/task:1/device:GPU:2(a)", "a", "/job:worker/task:1/device:GPU:2"),
    ],
)
def test_rules_of_layers(rules: str, layer: str, device: str | None) -> None:
    found = rule_of(layer, layer_rules(rules))
    assert (None if found is None else found.device) == device


@pytest.mark.parametrize("text", ["gpu encoder", "gpu(a", "(a)", "gpu(a) b; cpu(c)", "quantum(a)", "gpu(a); cpu(a)"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        layer_rules(text)


def test_layers_come_before_configurations_and_bodies_ask_for_what_their_node_does() -> None:
    proto = chain(layered("enc", "", "head"), configuration("two", count=2), on(0, "two", [0]), on(1, "two", [1]))
    assert asked(proto, "gpu:1(enc); npu(head)") == {"a": "/device:GPU:1", "b": "/device:GPU:1", "c": ""}
    assert asked(proto) == {"a": "/device:GPU:0", "b": "/device:GPU:1", "c": ""}
    bodies = [
        onnx.helper.make_graph([node(op, "x", f"{op}_out", name=op)], op, [], [info(f"{op}_out", [2])])
        for op in ("Tanh", "Abs")
    ]
    chosen = node("If", "c", "y", name="either", then_branch=bodies[0], else_branch=bodies[1])
    proto = model([chosen], [info("x", [2]), info("c", [], "BOOL")], [info("y", [2])])
    proto.graph.node[0].metadata_props.add(key="layer_ann", value="enc")
    bodies_own = proto.graph.node[0].attribute[1].g.node[0]
    bodies_own.metadata_props.add(key="layer_ann", value="other")
    found = read_onnx(proto.SerializeToString(), "m.onnx", layers=layer_rules("gpu:1(enc); cpu(other)")).file.graph
    devices = {node.op: node.device for function in found.functions.values() for node in function.nodes}
    assert devices["Tanh"] != devices["Abs"]
    assert {devices["Tanh"], devices["Abs"]} == {"/device:GPU:1", "/device:CPU:*"}


def test_what_has_no_kernel_on_the_device_does_not_ask_for_it() -> None:
    """A node that becomes several ops, one of which only a CPU has, can still be asked onto a GPU."""
    proto = model([node("Unique", "x", "y", name="u")], [info("x", [4])], [info("y", [None])])
    proto.graph.node[0].metadata_props.add(key="layer_ann", value="a")
    graph = read_onnx(proto.SerializeToString(), "m.onnx", layers=layer_rules("gpu(a)")).file.graph
    registry = graph.registry
    for each in graph.nodes:
        if each.device:
            assert any(kernel.device_type in ("GPU", "DEFAULT") for kernel in registry.kernels(each.op))


def test_layers_are_told_only_of_onnx() -> None:
    with pytest.raises(UsageError, match="--layer-assignment does not apply"):
        placesim.place({"nodes": [{"op": "NoOp"}]}, layer_assignment="gpu(a)")


# --- written back ---------------------------------------------------------------------------------------------------


def without_devices(data: bytes) -> Any:
    proto = onnx.ModelProto.FromString(data)
    proto.ir_version = 0
    del proto.configuration[:]
    for each in proto.graph.node:
        del each.device_configurations[:]
    return proto


def test_placed_devices_are_written_and_read_again_and_all_else_stays() -> None:
    data = ENCODER.read_bytes()
    options: dict[str, Any] = {"gpu": 2, "device": {"layers/layers.1/": "/gpu:1"}}
    placed = placesim.convert(str(ENCODER), format="onnx", placed=True, **options)
    proto = onnx.ModelProto.FromString(placed.content)
    onnx.checker.check_model(proto)
    assert proto.ir_version == 11
    assert without_devices(placed.content) == without_devices(data)
    devices = list(proto.configuration[0].device)
    assert sorted(devices) == ["/job:localhost/replica:0/task:0/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:1"]
    for each in proto.graph.node:
        numbers = {number for own in each.device_configurations for spec in own.sharding_spec for number in spec.device}
        expected = "GPU:1" if each.name.startswith("/layers/layers.1/") else "GPU:0"
        assert [devices[number][-5:] for number in numbers] == [expected]


def test_a_model_that_was_written_is_placed_as_it_was(tmp_path: Path) -> None:
    first = tmp_path / "first.onnx"
    placesim.convert(str(ENCODER), first, placed=True, gpu=2, device={"layers/layers.1/": "/gpu:1"})
    before = placesim.place(str(ENCODER), gpu=2, device={"layers/layers.1/": "/gpu:1"})
    after = placesim.place(str(first), gpu=2)
    assert {row.node: row.device for row in before.placements} == {row.node: row.device for row in after.placements}
    second = tmp_path / "second.onnx"
    placesim.convert(str(first), second, placed=True, gpu=2)
    assert second.read_bytes() == first.read_bytes()


def test_configurations_of_others_stay(tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    source.write_bytes(chain(configuration("two", count=2), on(0, "two", [1])).SerializeToString())
    written = placesim.convert(str(source), format="onnx", device={"a/": "/gpu:0", "b/": "/cpu:0"})
    proto = onnx.ModelProto.FromString(written.content)
    assert [each.name for each in proto.configuration] == ["placesim", "two"]
    assert [[own.configuration_id for own in each.device_configurations] for each in proto.graph.node] == [
        ["two", "placesim"],
        ["placesim"],
        [],
    ]


def test_a_plan_is_written_into_the_model(tmp_path: Path) -> None:
    planned = tmp_path / "planned.onnx"
    source = tmp_path / "m.onnx"
    source.write_bytes(chain().SerializeToString())
    plan = placesim.plan(str(source), gpu=2, evaluations=10, jobs=1)
    plan.write(planned)
    proto = onnx.ModelProto.FromString(planned.read_bytes())
    assert proto.configuration[0].name == "placesim"
    assert without_devices(planned.read_bytes()) == without_devices(source.read_bytes())
    assert placesim.place(str(planned), gpu=2, soft_placement=True).placements


def test_only_an_onnx_model_becomes_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"only ONNX input can be written as .onnx"):
        placesim.convert({"nodes": [{"op": "NoOp"}]}, tmp_path / "x.onnx")
    assert (
        main(["plan", str(ENCODER.parent.parent.parent.parent / "graphs" / "towers.yaml"), "-o", str(tmp_path / "x.onnx")]) == 2
    )
    assert not (tmp_path / "x.onnx").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["yaml", "pb"])
def test_a_model_in_another_form_gives_the_same(ending: str, tmp_path: Path) -> None:
    recorded = np.load(ENCODER.with_suffix(".npz"))
    feeds = {name.partition(":")[2]: recorded[name] for name in recorded if name.startswith("input:")}
    out = tmp_path / f"model.{ending}"
    placesim.convert(str(ENCODER), out)
    fetch = list(read_onnx(ENCODER.read_bytes(), "encoder.onnx").outputs.values())
    again = placesim.run(str(out), feed=feeds, fetch=fetch)
    assert np.array_equal(again.results[0].value, placesim.run(str(ENCODER), feed=feeds).results["y"])


def test_bad_annotations_are_a_problem_of_the_file() -> None:
    proto = chain(configuration("two", "nothing"))
    with pytest.raises(PlacesimError, match="annotations of devices"):
        read_onnx(proto.SerializeToString(), "m.onnx")


def test_weights_in_another_file_are_told_of_where_they_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new").mkdir()
    source = str(tmp_path / "model.onnx")
    proto = onnx.load(ENCODER)
    onnx.save(proto, source, save_as_external_data=True, location="weights.bin", size_threshold=256)
    assert main(["convert", source, str(tmp_path / "beside.onnx"), "--placed", "--gpu", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["convert", source, str(tmp_path / "new" / "model.onnx"), "--placed", "--gpu", "1"]) == 0
    folder = tmp_path / "new"
    told = f"not in onnx: weights in 'weights.bin' beside the input; copy these files to '{folder}'\n"
    assert capsys.readouterr().err == told
    assert main(["convert", source, str(tmp_path / "new" / "model"), "--format", "onnx", "--placed", "--gpu", "1"]) == 0
    assert capsys.readouterr().err == told
    (tmp_path / "weights.bin").unlink()
    assert main(["convert", source, str(folder / "model.pb")]) == 2
    assert "cannot read the weights file 'weights.bin'" in capsys.readouterr().err
