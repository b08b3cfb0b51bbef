"""SavedModels and MetaGraphs: what TensorFlow wrote, what is said about it, and what leads astray."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placesim.core.checkpoints.checkpoint import OBJECT_GRAPH_KEY
from placesim.core.checkpoints.tensor_slices import Extent
from placesim.core.dtypes import DOUBLE, FLOAT, STRING
from placesim.core.errors import GraphFileError, InvalidArgumentError, NotFoundError, PlacesimError, UsageError
from placesim.formats.recognition import Format, find_model_file, recognise
from placesim.formats.tensorflow import restoring
from placesim.formats.tensorflow.graph_def import write_graph_def
from placesim.formats.tensorflow.messages import Message, message_class, parse, parse_text, serialise, to_text
from placesim.formats.tensorflow.meta_graph import read_meta_graph
from placesim.formats.tensorflow.reader import TensorFlowFile, read_tensorflow_file
from placesim.formats.tensorflow.restoring import RestoredVariable, add_checkpoint_values, find_restored_variables
from placesim.formats.tensorflow.saved_model import read_saved_model
from placesim.graph.session_steps import Config
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession
from tests.core.checkpoints.checkpoint_files import CheckpointFiles
from tests.examples import examples

FILES = Path(__file__).parent.parent.parent / "data" / "tensorflow-files"
EXPECTED = json.loads((FILES / "expect.json").read_text())


# --- what TensorFlow wrote ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", EXPECTED, ids=[case["path"] for case in EXPECTED])
def test_files_of_tensorflow(case: dict[str, Any]) -> None:
    read = read_tensorflow_file(
        FILES / case["path"],
        tags=[case["tag"]] if "tag" in case else (),
        signature_name=case.get("signature"),
        checkpoint=FILES / case["checkpoint"] if "checkpoint" in case else None,
    )
    assert read.format.name.lower() == case["kind"]
    assert len(read.file.graph) == case["nodes"]
    assert read.annotations == case["devices"]
    devices = build_devices((TaskInventory(cpu=1, gpu=2),))
    session = GraphSession(read.file.graph, devices, Config(allow_soft_placement=True), initial_values=read.file.initial_values)
    feeds = {name: array_for(read, name, value) for name, value in case["feed"].items()}
    result = session.run(read.step(feeds, case["outputs"]))
    for fetched, wanted in zip(result.values, case["outputs"].values(), strict=True):
        if isinstance(wanted, list) and isinstance(wanted[0], str):
            assert [text.decode() for text in fetched.value] == wanted
        else:
            assert np.shape(fetched.value) == np.shape(wanted)
            np.testing.assert_allclose(fetched.value, wanted, rtol=1e-5, atol=1e-5)


def array_for(read: TensorFlowFile, name: str, value: Any) -> Any:
    node = read.file.graph.node(read.inputs.get(name, name).partition(":")[0])
    return np.array(value).astype(node.signature.output_dtypes[0].numpy)


def test_the_other_directory() -> None:
    """A MetaGraph's checkpoint may be given as the directory that its `checkpoint` file is in."""
    read = read_tensorflow_file(FILES / "checkpoint_ref/model.ckpt.meta", checkpoint=FILES / "checkpoint_ref")
    assert set(read.file.initial_values) == {"l1/weights", "l1/biases", "l2/weights"}


def test_collections_and_variables() -> None:
    data = (FILES / "checkpoint_ref/model.ckpt.meta").read_bytes()
    meta_graph = read_meta_graph(data, "model.ckpt.meta")
    assert meta_graph.initializers == ("l1/weights/Assign", "l1/biases/Assign", "l2/weights/Assign")
    assert meta_graph.restore_op == "save_1/restore_all"


def test_variables_are_views_of_their_files() -> None:
    values = read_saved_model(FILES / "tf2_model").meta_graph.file.initial_values
    assert set(values) == {"w", "b"}
    assert not any(value.flags.owndata or value.flags.writeable for value in values.values())


@pytest.mark.parametrize("name", ["tf1_model_ref", "tf2_model"])
def test_a_saved_model_in_text_format(tmp_path: Path, name: str) -> None:
    shutil.copytree(FILES / name / "variables", tmp_path / "variables")
    message = parse("SavedModel", (FILES / name / "saved_model.pb").read_bytes())
    (tmp_path / "saved_model.pbtxt").write_text(to_text(message))
    one, other = (read_saved_model(path).meta_graph for path in (tmp_path, FILES / name))
    one_graph, other_graph = (parse("GraphDef", write_graph_def(found.file)) for found in (one, other))
    assert one_graph == other_graph  # attrs have no order
    assert one.signatures == other.signatures
    assert {k: v.tolist() for k, v in one.file.initial_values.items()} == {
        k: v.tolist() for k, v in other.file.initial_values.items()
    }


def test_the_file_of_a_saved_model_alone(tmp_path: Path) -> None:
    whole = read_tensorflow_file(FILES / "tf1_model_ref" / "saved_model.pb")
    assert len(whole.file.initial_values) == 3
    shutil.copy(FILES / "tf1_model_ref" / "saved_model.pb", tmp_path / "other.pb")
    alone = read_tensorflow_file(tmp_path / "other.pb")
    assert (alone.inputs, alone.outputs, alone.file.initial_values) == (whole.inputs, whole.outputs, {})


# --- recognition ----------------------------------------------------------------------------------------------------

KINDS = {
    "tf2_model": Format.SAVED_MODEL,
    "tf1_model_ref/saved_model.pb": Format.SAVED_MODEL,
    "checkpoint_ref/model.ckpt.meta": Format.META_GRAPH,
    "checkpoint_ref/model.ckpt.index": Format.CHECKPOINT,
    "checkpoint_ref/checkpoint": Format.CHECKPOINT_STATE,
    "frozen.pb": Format.GRAPH_DEF,
    "frozen.pbtxt": Format.GRAPH_DEF,
    "control.pb": Format.GRAPH_DEF,
    "expect.json": Format.GRAPH_FILE,
    "tf2_model/fingerprint.pb": Format.GRAPH_FILE,
}


@pytest.mark.parametrize("path", KINDS)
def test_files_are_known_by_their_content(path: str) -> None:
    found = find_model_file(FILES / path) or FILES / path
    assert recognise(found.read_bytes()).format is KINDS[path]


CONTENTS = {
    b"": Format.GRAPH_FILE,
    b"nodes: []": Format.GRAPH_FILE,
    b"# a comment\nversions: {producer: 1}\nnodes: []": Format.GRAPH_FILE,
    b"versions { producer: 1 }": Format.GRAPH_DEF,
    b"# a comment\n\nnode {\n}": Format.GRAPH_DEF,
    b"node: {}": Format.GRAPH_DEF,
    b"meta_info_def {\n}": Format.META_GRAPH,
    b"saved_model_schema_version: 1": Format.SAVED_MODEL,
    b'{"nodes": []}': Format.GRAPH_FILE,
    b"\xff\xfen\0o\0d\0e\0s\0": Format.GRAPH_FILE,
    b"\x08\x01\x12\x7f": Format.SAVED_MODEL,
    b"\x22\x02\x08\x15": Format.GRAPH_DEF,
    b"\x0a\x50\x0a\x01": Format.GRAPH_DEF,
    b"\x12\x08\x0a\x06\x0a\x01n\x12\x01N": Format.META_GRAPH,
    b"\x12\x07\x0a\x05\x0a\x03\x0a\x01f": Format.GRAPH_DEF,
}


@pytest.mark.parametrize("content", CONTENTS)
def test_what_bytes_are(content: bytes) -> None:
    assert recognise(content).format is CONTENTS[content]


# --- restoring ------------------------------------------------------------------------------------------------------


def saved_with(text: str, restore_op: str = "restore") -> Message:
    """A MetaGraph of some nodes in text format."""
    message = message_class("MetaGraphDef")()
    message.meta_info_def.tags.append("serve")
    message.graph_def.CopyFrom(parse_text("GraphDef", text.encode()))
    message.saver_def.restore_op_name = restore_op
    return message


def variable(name: str, op: str = "VariableV2", shape: str = "dim { size: 3 } dim { size: 5 }") -> str:
    return (
        f'node {{ name: "{name}" op: "{op}" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} '
        f'attr {{ key: "shape" value {{ shape {{ {shape} }} }} }} }}'
    )


def texts(name: str, values: str) -> str:
    dims = f"dim {{ size: {values.count('string_val')} }}"
    return (
        f'node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: DT_STRING }} }} '
        f'attr {{ key: "value" value {{ tensor {{ dtype: DT_STRING tensor_shape {{ {dims} }} {values} }} }} }} }}'
    )


PARTITIONED = (
    variable("w/part_0")
    + variable("w/part_1")
    + texts("prefix", 'string_val: "x"').replace("tensor_shape { dim { size: 1 } }", "tensor_shape { }")
    + texts("names", 'string_val: "w" string_val: "w"')
    + texts("parts", 'string_val: "6 5 0,3:0,5" string_val: "6 5 3,3:-"')
    + """
    node { name: "read" op: "RestoreV2" input: "prefix" input: "names" input: "parts"
           attr { key: "dtypes" value { list { type: DT_FLOAT type: DT_FLOAT } } } }
    node { name: "same" op: "Identity" input: "read:1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "a" op: "Assign" input: "w/part_0" input: "read" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "b" op: "Assign" input: "w/part_1" input: "same" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "restore" op: "NoOp" input: "^a" input: "^b" }
    """
)


def test_a_partitioned_variable(tmp_path: Path) -> None:
    meta_graph = read_meta_graph(serialise(saved_with(PARTITIONED)), "m")
    assert find_restored_variables(meta_graph.file.graph, "restore") == [
        RestoredVariable("w/part_1", "w", "6 5 3,3:-"),
        RestoredVariable("w/part_0", "w", "6 5 0,3:0,5"),
    ]
    whole = np.arange(30, dtype=np.float32).reshape(6, 5)
    files = CheckpointFiles(tmp_path / "model")
    files.add_parts("w", FLOAT, whole, [(Extent(0, 4), Extent(0, 5)), (Extent(4, 2), Extent(0, 5))])
    values = add_checkpoint_values(meta_graph.file, files.write(), meta_graph.restore_op).initial_values
    assert values["w/part_0"].tolist() == whole[:3].tolist()
    assert values["w/part_1"].tolist() == whole[3:].tolist()


def test_variables_without_a_restore_op_are_known_by_name(tmp_path: Path) -> None:
    named = variable("v") + variable("h", "VarHandleOp") + variable("o", "VarHandleOp") + variable("other")
    meta_graph = read_meta_graph(serialise(saved_with(named, "")), "m")
    ones = np.ones((3, 5), np.float32)
    files = CheckpointFiles(tmp_path / "model")
    objects = parse_text("TrackableObjectGraph", b"nodes { attributes { full_name: 'h' checkpoint_key: 'key of h' } }")
    files.add(OBJECT_GRAPH_KEY, STRING, np.array(serialise(objects), object))
    files.add("v", FLOAT, ones)
    files.add("key of h", FLOAT, 2 * ones)
    files.add("o/.ATTRIBUTES/VARIABLE_VALUE", FLOAT, 3 * ones)
    values = add_checkpoint_values(meta_graph.file, files.write(), meta_graph.restore_op).initial_values
    assert {name: float(value[0, 0]) for name, value in values.items()} == {"v": 1, "h": 2, "o": 3}


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        (DOUBLE, (6, 5), "tensor_name = w; expected dtype float does not equal original dtype double"),
        (FLOAT, (6, 4), r"spec \[6,5\] does not match the shape stored in checkpoint: \[6,4\]"),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, dtype: Any, shape: tuple[int, ...], message: str) -> None:
    meta_graph = read_meta_graph(serialise(saved_with(PARTITIONED)), "m")
    files = CheckpointFiles(tmp_path / "model")
    files.add("w", dtype, np.zeros(shape, dtype.numpy))
    with pytest.raises(InvalidArgumentError, match=message):
        add_checkpoint_values(meta_graph.file, files.write(), meta_graph.restore_op)


def test_a_value_of_another_shape(tmp_path: Path) -> None:
    meta_graph = read_meta_graph(serialise(saved_with(variable("v"), "")), "m")
    files = CheckpointFiles(tmp_path / "model")
    files.add("v", FLOAT, np.zeros((3, 7), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"to match. lhs shape= \[3,5\] rhs shape= \[3,7\]"):
        add_checkpoint_values(meta_graph.file, files.write(), meta_graph.restore_op)


@pytest.mark.slow
def test_a_restore_op_that_leads_nowhere_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function calls the next one twice, which makes 2**40 calls."""
    monkeypatch.setattr(restoring, "_MAX_STEPS", 100_000)
    library = message_class("FunctionDefLibrary")()
    for i in range(41):
        function = library.function.add()
        function.signature.name = f"f{i}"
        for name in ("a", "b") if i < 40 else ():
            function.node_def.add(name=name, op=f"f{i + 1}")
    message = saved_with('node { name: "restore" op: "f0" }')
    message.graph_def.library.CopyFrom(library)
    with pytest.raises(InvalidArgumentError, match="the restore op leads to too many nodes"):
        find_restored_variables(read_meta_graph(serialise(message), "m").file.graph, "restore")


def test_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path / "model")
    files.add("v", FLOAT, np.zeros(1, np.float32))
    meta_graph = read_meta_graph(serialise(saved_with(PARTITIONED)), "m")
    with pytest.raises(NotFoundError, match="Key w not found in checkpoint"):
        add_checkpoint_values(meta_graph.file, files.write(), meta_graph.restore_op)


# --- tags, signatures, assets ---------------------------------------------------------------------------------------

PLACEHOLDER = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'


def write_model(directory: Path, *meta_graphs: Message) -> Path:
    (directory / "saved_model.pb").write_bytes(
        serialise(message_class("SavedModel")(saved_model_schema_version=1, meta_graphs=meta_graphs))
    )
    return directory


def test_tags_choose(tmp_path: Path) -> None:
    one, other = saved_with(PLACEHOLDER), saved_with(PLACEHOLDER.replace('"x"', '"y"'))
    other.meta_info_def.tags.append("gpu")
    write_model(tmp_path, other, one)
    assert "x" in read_saved_model(tmp_path).meta_graph.file.graph.ids
    assert "y" in read_saved_model(tmp_path, ["gpu", "serve"]).meta_graph.file.graph.ids
    with pytest.raises(GraphFileError, match=r"matching supplied tags: \{ train \}, with available tags: \{ serve, gpu \}; "):
        read_saved_model(tmp_path, ["train"])


def test_signatures(tmp_path: Path) -> None:
    message = saved_with(PLACEHOLDER)
    inputs = message.signature_def["f"].inputs
    inputs["a"].name = "x:0"
    inputs["s"].coo_sparse.values_tensor_name = "x:0"
    inputs["s"].coo_sparse.indices_tensor_name = "x:0"
    inputs["s"].coo_sparse.dense_shape_tensor_name = "x:0"
    inputs["r"].composite_tensor.components.add(name="x:0")
    message.signature_def["g"].outputs["y"].name = "x:1"
    write_model(tmp_path, message)
    read = read_tensorflow_file(tmp_path, signature_name="f")
    assert read.inputs == dict.fromkeys(["a", "r/0", "s/indices", "s/values", "s/dense_shape"], "x:0")
    with pytest.raises(InvalidArgumentError, match="no signature 'h' in the model, with available signatures: 'f', 'g'"):
        read_tensorflow_file(tmp_path, signature_name="h")
    with pytest.raises(GraphFileError, match="signature 'g': 'y' refers to 'x:1', which is not a tensor"):
        read_tensorflow_file(tmp_path, signature_name="g")
    assert read_tensorflow_file(tmp_path).outputs == {}


def test_init_ops(tmp_path: Path) -> None:
    message = saved_with(PLACEHOLDER + 'node { name: "init" op: "NoOp" }')
    message.collection_def["saved_model_main_op"].node_list.value.append("init")
    write_model(tmp_path, message)
    assert read_tensorflow_file(tmp_path).init_op == "init"


NEWER = """node { name: "n" op: "NoOp" attr { key: "speed" value { i: %d } } }
    library { function { signature { name: "f" } node_def { name: "m" op: "NoOp" attr { key: "speed" value { i: 3 } } } } }"""


def test_defaults_of_attrs_that_are_newer_than_the_registry() -> None:
    message = saved_with(NEWER % 3)
    speed = message.meta_info_def.stripped_op_list.op.add(name="NoOp").attr.add(name="speed", type="int")
    speed.default_value.i = 3
    file = read_meta_graph(serialise(message), "m").file
    assert "speed" not in file.graph.node("n").attrs
    assert parse("GraphDef", write_graph_def(file)) == message.graph_def
    message.graph_def.node[0].attr["speed"].i = 4
    with pytest.raises(GraphFileError, match="NodeDef mentions attr 'speed' not in Op<name=NoOp;"):
        read_meta_graph(serialise(message), "m")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "link", "a\0b"])
def test_assets_stay_inside(tmp_path: Path, name: str) -> None:
    message = saved_with(PLACEHOLDER)
    message.asset_file_def.add(filename=name).tensor_info.name = "x:0"
    root = tmp_path / "model"
    (root / "assets").mkdir(parents=True)
    (root / "assets" / "link").symlink_to("/etc/passwd")
    write_model(root, message)
    with pytest.raises(InvalidArgumentError, match=r"is outside the model's directory|is not a valid file name"):
        read_saved_model(root)
    message.asset_file_def[0].filename = "vocab.txt"
    write_model(root, message)
    assert read_tensorflow_file(root).asset_feeds == {"x": str((root / "assets" / "vocab.txt").resolve())}


@pytest.mark.parametrize("part", ["saved_model.pb", "variables"])
def test_links_out_of_the_directory(tmp_path: Path, part: str) -> None:
    shutil.copytree(FILES / "tf2_model", tmp_path / "model")
    inner = tmp_path / "model" / part
    inner.rename(tmp_path / part)
    inner.symlink_to(tmp_path / part)
    with pytest.raises(InvalidArgumentError, match="is outside the model's directory"):
        read_saved_model(tmp_path / "model")


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="SavedModel file does not exist at: "):
        read_tensorflow_file(tmp_path)
    with pytest.raises(UsageError, match="cannot read"):
        read_tensorflow_file(tmp_path / "nowhere.pb")
    with pytest.raises(GraphFileError, match="not a TensorFlow graph: got a checkpoint's index"):
        read_tensorflow_file(FILES / "checkpoint_ref/model.ckpt.index")
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(GraphFileError, match="with available tags: none"):
        read_tensorflow_file(tmp_path)


# --- spoilt files ---------------------------------------------------------------------------------------------------

SPOILT = [path for path, kind in KINDS.items() if kind in (Format.GRAPH_DEF, Format.META_GRAPH)]


@pytest.mark.slow
@pytest.mark.parametrize("path", [*SPOILT, "tf1_model_ref/saved_model.pb", "tf2_model/saved_model.pb"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_spoilt_file_is_never_more_than_an_error(tmp_path: Path, path: str, data: st.DataObject) -> None:
    content = bytearray((FILES / path).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        with_what = data.draw(st.one_of(st.binary(max_size=4), st.sampled_from([b"\xff\xff\xff\xff\x0f", b"\0", b'"'])))
        content[place : place + data.draw(st.integers(0, 3))] = with_what
    end = data.draw(st.one_of(st.just(len(content)), st.integers(1, len(content))))
    directory = tmp_path / "model"
    directory.mkdir(exist_ok=True)
    name = "saved_model.pb" if "saved_model" in path else "file"
    (directory / name).write_bytes(bytes(content[:end]))
    with suppress(PlacesimError):
        file = read_tensorflow_file(directory if "saved_model" in path else directory / name).file
        again = write_graph_def(file)
        assert not again or write_graph_def(read_tensorflow_file("again", data=again).file) == again


FOUND = {
    # what fuzzing has found: content, and what is said of it now
    b'node { name: "\xff" }': "invalid GraphDef: 'utf-8' codec can't decode byte 0xff",
    b"\x12\x02\x12\x7f" + b"\x0a\x05\x0a\x01n\x12\x00": "truncated",
    b"\x12\x03\x12\x01\x0a": "invalid FunctionDefLibrary: Error parsing message",
}


@pytest.mark.parametrize("content", FOUND)
def test_what_fuzzing_has_found(content: bytes) -> None:
    with pytest.raises(GraphFileError) as caught:
        read_tensorflow_file("found", data=content)
    assert FOUND[content] in caught.value.message
