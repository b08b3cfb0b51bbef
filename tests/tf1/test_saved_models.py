"""SavedModels that scripts write and read, and `tf.config`: values are TensorFlow's."""

from __future__ import annotations

import re
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


def test_settings_are_kept_and_refused_as_tensorflow_does() -> None:
    """Results and texts are TensorFlow 2.21's, from a machine without a GPU; those about a GPU are of its source."""
    config, parts = tf.config, tf.config.LogicalDeviceConfiguration
    configuration.reset()
    try:
        tf.Session().run(tf.constant(1.0))
        (cpu,) = config.list_physical_devices("CPU")
        config.threading.set_intra_op_parallelism_threads(3)
        config.experimental.set_synchronous_execution(False)
        config.run_functions_eagerly(True)
        config.experimental.enable_tensor_float_32_execution(False)
        config.optimizer.set_experimental_options({"constant_folding": True})
        assert config.threading.get_intra_op_parallelism_threads() == 3
        assert not config.experimental.get_synchronous_execution()
        assert not config.experimental.tensor_float_32_execution_enabled()
        assert config.functions_run_eagerly()
        assert config.optimizer.get_experimental_options() == {
            "constant_folding": True,
            "disable_model_pruning": False,
            "disable_meta_optimizer": False,
        }
        for value, found in ((True, "autoclustering"), (False, ""), ("autoclustering", "autoclustering")):
            config.optimizer.set_jit(value)
            assert config.optimizer.get_jit() == found
        for policy, found in (("warn", "warn"), (None, "silent")):
            config.experimental.set_device_policy(policy)
            assert config.experimental.get_device_policy() == found
        tf.debugging.disable_traceback_filtering()
        assert not tf.debugging.is_traceback_filtering_enabled()
        tf.debugging.enable_traceback_filtering()
        assert tf.debugging.is_traceback_filtering_enabled()
        assert config.experimental.get_device_details(cpu) == {}
        assert config.experimental.get_memory_info("CPU:0") == {"current": 0, "peak": 0}
        config.set_visible_devices([], "GPU")
        assert config.get_visible_devices() == [cpu]
        refused = (
            (
                config.experimental.set_memory_growth,
                (cpu, True),
                "Cannot set memory growth on non-GPU and non-Pluggable devices",
            ),
            (config.set_visible_devices, ([cpu], "GPU"), f"Unrecognized device: {cpu!r}"),
            (config.set_visible_devices, (3,), "Unrecognized device: 3"),
            (config.experimental.get_memory_info, ("GPU:0",), "No matching devices found for 'GPU:0'"),
            (config.experimental.get_device_details, (3,), "device must be a tf.config.PhysicalDevice, but got: 3"),
            (config.experimental.set_device_policy, ("odd",), "Invalid argument `device_policy`: 'odd'. Please refer to"),
            (
                *(config.set_logical_device_configuration, (cpu, [parts(memory_limit=3)])),
                "Setting memory limit on CPU virtual devices is currently not supported",
            ),
        )
        for function, arguments, text in refused:
            with pytest.raises(ValueError, match=re.escape(text)):
                function(*arguments)
        with pytest.raises(KeyError):
            config.experimental.get_memory_growth(cpu)
        config.set_logical_device_configuration(cpu, [parts(), parts()])
        assert config.get_logical_device_configuration(cpu) == [parts(), parts()]
        with pytest.raises(ValueError, match=r"^Cannot set memory growth on device when virtual devices configured$"):
            config.experimental.set_memory_growth(cpu, True)
        assert [device.name for device in config.list_logical_devices()] == ["/device:CPU:0", "/device:CPU:1"]
        late: tuple[tuple[Any, tuple[Any, ...], str], ...] = (
            (config.threading.set_inter_op_parallelism_threads, (4,), "Inter op parallelism cannot be modified after"),
            (config.set_logical_device_configuration, (cpu, [parts()]), "Virtual devices cannot be modified after being"),
            (config.set_visible_devices, ([], "CPU"), "Visible devices cannot be modified after being initialized"),
        )
        for function, arguments, text in late:
            with pytest.raises(RuntimeError, match=f"^{text}"):
                function(*arguments)
        config.threading.set_intra_op_parallelism_threads(3)
    finally:
        configuration.reset()


def test_settings_of_gpus_become_a_sessions_config() -> None:
    config, parts = tf.config, tf.config.LogicalDeviceConfiguration
    configuration.reset()
    try:
        with placesim.machine(gpu=3):
            gpus = config.list_physical_devices("GPU")
            config.set_visible_devices(gpus[1:], "GPU")
            config.experimental.set_memory_growth(gpus[1], True)
            with pytest.raises(ValueError, match=r"^Memory growth cannot differ between GPU devices$"):
                tf.Session()
            config.experimental.set_memory_growth(gpus[2], True)
            assert config.experimental.get_memory_growth(gpus[1])
            made = configuration.default_config()
            assert (made.gpu_options.visible_device_list, made.gpu_options.allow_growth) == ("1,2", True)
            with pytest.raises(ValueError, match=r"^memory limit must be set for GPU virtual devices$"):
                config.set_logical_device_configuration(gpus[2], [parts()])
            config.set_logical_device_configuration(gpus[2], [parts(memory_limit=100), parts(memory_limit=200)])
            shares = configuration.default_config().gpu_options.experimental.virtual_devices
            assert [list(share.memory_limit_mb) for share in shares] == [[], [100, 200]]
            details = config.experimental.get_device_details(gpus[0])
            assert details.keys() == {"device_name", "compute_capability"}
            config.set_visible_devices([], "GPU")
            made = configuration.default_config()
            assert (made.gpu_options.visible_device_list, made.device_count["GPU"]) == ("-1", 0)
            assert config.list_logical_devices("GPU") == []
            with pytest.raises(RuntimeError, match=r"^Physical devices cannot be modified after being initialized$"):
                config.experimental.set_memory_growth(gpus[0], True)
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
