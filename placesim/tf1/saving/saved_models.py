"""Write and read SavedModels: `tf.saved_model.builder`, `loader` and `simple_save`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class, parse, parse_text, to_text
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.saving import saved_model_constants as names
from placesim.tf1.saving.saver import Saver
from placesim.tf1.saving.signatures import predict_signature_def
from placesim.tf1.session.stacks import RunningSession


class SavedModelBuilder:
    """Writes graphs with tags, and the first graph's variables.  Raises AssertionError if the directory is not empty."""

    def __init__(self, export_dir: StrPath) -> None:
        self._export_dir = os.fspath(export_dir)
        if os.path.exists(self._export_dir):
            if os.listdir(self._export_dir):
                raise AssertionError(
                    f"Export directory {self._export_dir} already exists, and isn't empty. Please choose a different export "
                    "directory, or delete all the contents of the specified directory."
                )
        else:
            os.makedirs(self._export_dir)
        self._model = message_class("SavedModel")(saved_model_schema_version=names.SAVED_MODEL_SCHEMA_VERSION)
        self._has_variables = False

    def add_meta_graph_and_variables(
        self,
        sess: RunningSession,
        tags: Iterable[str],
        signature_def_map: object = None,
        assets_collection: object = None,
        legacy_init_op: object = None,
        clear_devices: bool = False,
        main_op: object = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Add the first graph and save its variables.  Raises AssertionError if there is one already."""
        if self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` instead."
            )
        _check_signatures(signature_def_map)
        assets = self._prepared(assets_collection, legacy_init_op, main_op)
        folder = os.path.join(self._export_dir, names.VARIABLES_DIRECTORY)
        os.makedirs(folder, exist_ok=True)
        saver = self._saver_of(saver)
        saver.save(sess, os.path.join(folder, names.VARIABLES_FILENAME), write_meta_graph=False, write_state=False)
        self._add(saver, tags, signature_def_map, assets, clear_devices)
        self._has_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: object = None,
        assets_collection: object = None,
        legacy_init_op: object = None,
        clear_devices: bool = False,
        main_op: object = None,
        strip_default_attrs: bool = False,
        saver: object = None,
    ) -> None:
        """Add another graph for the first graph's variables.  Raises AssertionError if there is no first graph yet."""
        if not self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        _check_signatures(signature_def_map)
        assets = self._prepared(assets_collection, legacy_init_op, main_op)
        self._add(self._saver_of(saver), tags, signature_def_map, assets, clear_devices)

    def save(self, as_text: bool = False) -> bytes:
        """Write the model's file, and return its path."""
        name = names.SAVED_MODEL_FILENAME_PBTXT if as_text else names.SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._export_dir, name)
        data = to_text(self._model).encode() if as_text else self._model.SerializeToString(deterministic=True)
        with open(path, "wb") as file:
            file.write(data)
        return path.encode()

    # --- parts

    def _saver_of(self, given: object) -> Any:
        return given or Saver([*tf.global_variables(), *tf.get_collection("saveable_objects")], sharded=True, allow_empty=True)

    def _prepared(self, assets: Any, legacy_init_op: object, main_op: object) -> list[Any]:
        """Collect the op that runs after loading, and return the AssetFileDefs.  Raises TypeError if it is no op."""
        for key, op in ((names.LEGACY_INIT_OP_KEY, legacy_init_op), (names.MAIN_OP_KEY, main_op)):
            if op is None:
                continue
            if not isinstance(op, tf.Operation):
                raise TypeError(f"Expected {op} to be an Operation but got type {type(op)} instead.")
            tf.add_to_collection(names.MAIN_OP_KEY if key == names.LEGACY_INIT_OP_KEY else key, op)
        return [self._asset(tensor) for tensor in assets or ()]

    def _asset(self, tensor: Any) -> Any:
        """Copy a constant's file beside the model; returns its AssetFileDef."""
        if tensor.op.type != "Const":
            raise TypeError(f"Asset path tensor {tensor} must be of type constant.Has type {tensor.op.type} instead.")
        path = constant_value(tensor).item().decode()
        if not path:
            raise ValueError(f"Asset filepath tensor {tensor} in is invalid.")
        folder = os.path.join(self._export_dir, names.ASSETS_DIRECTORY)
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))
        found = message_class("AssetFileDef")(filename=os.path.basename(path))
        found.tensor_info.name = tensor.name
        return found

    def _add(self, saver: Any, tags: Iterable[str], signatures: Any, assets: list[Any], clear_devices: bool) -> None:
        meta_graph = saver.export_meta_graph(clear_devices=clear_devices)
        meta_graph.meta_info_def.tags.extend(tags)
        for key, signature in (signatures or {}).items():
            meta_graph.signature_def[key].CopyFrom(signature)
        meta_graph.asset_file_def.extend(assets)
        self._model.meta_graphs.add().CopyFrom(meta_graph)


def _check_signatures(signatures: Any) -> None:
    for signature in (signatures or {}).values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            _check_info(info)


def _check_info(info: Any) -> None:
    if info.WhichOneof("encoding") is None:
        raise AssertionError(
            f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' "
            "fields (e.g., name or coo_sparse) set."
        )
    if not info.dtype:
        raise AssertionError(
            f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must have the dtype field set."
        )


def simple_save(
    session: RunningSession, export_dir: StrPath, inputs: TensorLike, outputs: object, legacy_init_op: object = None
) -> None:
    """`tf.saved_model.simple_save`: the graph for serving, with one signature."""
    signatures = {names.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(inputs, outputs)}
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session, tags=[names.SERVING], signature_def_map=signatures, main_op=legacy_init_op, clear_devices=True
    )
    builder.save()


# --- reading --------------------------------------------------------------------------------------------------------


def maybe_saved_model_directory(export_dir: StrPath) -> bool:
    """Whether there is a SavedModel's file in a directory."""
    files = (names.SAVED_MODEL_FILENAME_PB, names.SAVED_MODEL_FILENAME_PBTXT)
    return any(os.path.isfile(os.path.join(os.fspath(export_dir), name)) for name in files)


contains_saved_model = maybe_saved_model_directory


def _read(export_dir: str) -> Any:
    """Read the SavedModel message.  Raises OSError if there is no file."""
    binary, text = (os.path.join(export_dir, f"saved_model.{ending}") for ending in ("pb", "pbtxt"))
    if os.path.isfile(binary):
        with open(binary, "rb") as file:
            return parse("SavedModel", file.read())
    if os.path.isfile(text):
        with open(text, "rb") as file:
            return parse_text("SavedModel", file.read())
    raise OSError(f"SavedModel file does not exist at: {export_dir}{os.path.sep}{{saved_model.pbtxt|saved_model.pb}}")


def load(
    sess: RunningSession, tags: Iterable[str], export_dir: StrPath, import_scope: str | None = None, **saver_kwargs: object
) -> Any:
    """`tf.saved_model.load`: import the graph with these tags into the session's graph, and restore its variables.

    Returns the graph's MetaGraphDef.  Raises OSError if there is no model, RuntimeError if none of its graphs has the tags.
    """
    directory = os.fspath(export_dir)
    model = _read(directory)
    wanted = set(tags)
    available = [set(meta_graph.meta_info_def.tags) for meta_graph in model.meta_graphs]
    if wanted not in available:
        shown = str(wanted).strip("[]{}")
        raise RuntimeError(
            f"MetaGraphDef associated with tags {shown} could not be found in SavedModel, with available tags '{available}'. "
            "To inspect available tag-sets in the SavedModel, please use the SavedModel CLI: `saved_model_cli`."
        )
    found = model.meta_graphs[available.index(wanted)]
    with sess.graph.as_default():
        saver = tf.train.import_meta_graph(found, import_scope=import_scope, **saver_kwargs)
        if saver is not None and not getattr(saver, "_is_empty", False):
            saver.restore(sess, os.path.join(directory, names.VARIABLES_DIRECTORY, names.VARIABLES_FILENAME))
        _run_main_op(sess, found, directory, import_scope)
    return found


def _run_main_op(sess: RunningSession, meta_graph: Any, directory: str, scope: str | None) -> None:
    """Run the model's main op, with the paths of its asset files as feeds."""

    def named(name: str) -> str:
        return f"{scope}/{name}" if scope else name

    folder = os.path.join(directory, names.ASSETS_DIRECTORY)
    feeds = {named(asset.tensor_info.name): os.path.join(folder, asset.filename) for asset in meta_graph.asset_file_def}
    for key in (names.MAIN_OP_KEY, names.LEGACY_INIT_OP_KEY):
        if key in meta_graph.collection_def:
            ops = meta_graph.collection_def[key].node_list.value
            if len(ops) != 1:
                raise RuntimeError(f"Expected exactly one SavedModel init op. Found {len(ops)}: {list(ops)}.")
            sess.run(fetches=[sess.graph.get_operation_by_name(named(ops[0]))], feed_dict=feeds)
            return


def main_op() -> Any:
    """`tf.saved_model.main_op`: an op that initializes variables and tables."""
    initial = tf.global_variables_initializer()
    local = tf.local_variables_initializer()
    return tf.group(initial, local, tf.tables_initializer())


def main_op_with_restore(restore_op_name: str) -> Any:
    """An op that runs the main op, and then restores variables."""
    with tf.control_dependencies([main_op()]):
        return tf.group(restore_op_name)
