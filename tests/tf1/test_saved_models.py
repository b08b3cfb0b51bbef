"""SavedModels that scripts write and read, and `tf.config`: values are TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.formats.tensorflow.saved_model import read_saved_model
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.session import configuration

tf: Any = namespace("")


def _save(folder: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.multiply(x, tf.Variable(2.0, name="v"), name="y")
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    _save(tmp_path / "model")
    assert tf.saved_model.contains_saved_model(tmp_path / "model")
    assert "y" in {node.name for node in read_saved_model(tmp_path / "model").meta_graph.file.graph.nodes}
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.saved_model.load(session, [tf.saved_model.SERVING], str(tmp_path / "model"))
        signature = found.signature_def[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        assert signature.method_name == "tensorflow/serving/predict"
        assert session.run(signature.outputs["y"].name, {"x:0": [1, 2]}).tolist() == [2.0, 4.0]


def test_what_is_refused(tmp_path: Path) -> None:
    _save(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(
            RuntimeError, match=r"tags 'nope' could not be found in SavedModel, with available tags '\[\{'serve'\}\]'"
        ):
            tf.saved_model.load(session, ["nope"], str(tmp_path / "model"))
        with pytest.raises(OSError, match=r"SavedModel file does not exist at: /nowhere/\{saved_model.pbtxt\|saved_model.pb\}"):
            tf.saved_model.load(session, ["serve"], "/nowhere")
    with pytest.raises(AssertionError, match="already exists, and isn't empty"):
        tf.saved_model.Builder(str(tmp_path / "model"))


def test_devices_and_settings() -> None:
    configuration.reset()
    try:
        with placesim.machine(gpu=2):
            gpus = tf.config.list_physical_devices("GPU")
            assert [gpu.name for gpu in gpus] == ["/physical_device:GPU:0", "/physical_device:GPU:1"]
            tf.config.experimental.set_memory_growth(gpus[0], True)
            tf.config.set_visible_devices(gpus[1:], "GPU")
            tf.config.threading.set_inter_op_parallelism_threads(3)
            assert [device.name for device in tf.config.list_logical_devices("GPU")] == ["/device:GPU:0"]
            with pytest.raises(RuntimeError, match=r"Inter op parallelism cannot be modified after initialization."):
                tf.config.threading.set_inter_op_parallelism_threads(4)
    finally:
        configuration.reset()


def test_a_session_without_a_config_takes_what_was_set() -> None:
    configuration.reset()
    try:
        tf.config.set_soft_device_placement(True)
        with tf.Graph().as_default(), tf.device("/gpu:0"):
            three = tf.constant(1) + 2
            assert tf.Session().run(three) == 3
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.Session(config=tf.ConfigProto()).run(three)
    finally:
        configuration.reset()
