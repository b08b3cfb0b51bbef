"""`tf.train.Saver`: ops to save and restore variables, and management of recent checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.core.checkpoints.checkpoint_state import STATE_FILE
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1 import errors
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.graph_defs.meta_graphs import export_meta_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.saving import states
from placesim.tf1.saving.save_graph import V2, SaveGraph
from placesim.tf1.saving.saveables import saveables_of
from placesim.tf1.session.stacks import RunningSession

_FAILED = "Restoring from checkpoint failed. This is most likely due to"
_CHECK = "Please ensure that you have not altered the graph expected based on the checkpoint. Original error:"


class Saver:
    """Saves and restores variables.  Raises ValueError for no variables, TypeError for other values."""

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: object = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or var_list=None."
            )
        if builder is not None:
            raise NotImplementedError("tf.train.Saver(builder=...) is not there: what saves is built from var_list.")
        self._var_list, self._reshape, self._sharded = var_list, reshape, sharded
        self._max_to_keep, self._keep_hours = max_to_keep, keep_checkpoint_every_n_hours
        self._name, self._allow_empty, self._filename = name, allow_empty, filename
        self._is_built, self._is_empty = False, False
        self._write_version, self._pad_step_number = write_version, pad_step_number
        self._save_relative_paths = save_relative_paths
        self._last_checkpoints: list[tuple[str, float]] = []
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        self.saver_def = saver_def
        if not defer_build:
            self.build()
        if self.saver_def is not None:
            self._check_saver_def()
            self._write_version = self.saver_def.version

    def build(self) -> None:
        """Add the nodes, unless they have been added."""
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            if self._var_list is None:
                self._var_list = [*tf.global_variables(), *tf.get_collection(GraphKeys.SAVEABLE_OBJECTS)]
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            built = SaveGraph(
                saveables_of(self._var_list), self._write_version, self._sharded, self._reshape, self._name, self._filename
            )
            self.saver_def = message_class("SaverDef")(
                filename_tensor_name=built.filename.name,
                save_tensor_name=built.save.name,
                restore_op_name=built.restore.name,
                max_to_keep=self._max_to_keep or 0,
                sharded=self._sharded,
                keep_checkpoint_every_n_hours=self._keep_hours,
                version=self._write_version,
            )
        elif self.saver_def and self._name:
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(self.saver_def, field, f"{self._name}/{getattr(self.saver_def, field)}")
        self._check_saver_def()
        self._next_checkpoint_time = time.time() + self.saver_def.keep_checkpoint_every_n_hours * 3600

    def _check_saver_def(self) -> None:
        if not isinstance(self.saver_def, message_class("SaverDef")):
            raise ValueError(f"saver_def must be a saver_pb2.SaverDef: {self.saver_def}")
        for field in ("save_tensor_name", "restore_op_name"):
            if not getattr(self.saver_def, field):
                raise ValueError(f"saver_def must specify the {field}: {self.saver_def}")

    # --- state

    def as_saver_def(self) -> Any:
        """The SaverDef."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaverDef, with `export_scope` removed from its names; None if the nodes are outside that scope."""
        if export_scope is None:
            return self.saver_def
        names = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
        if not self.saver_def.filename_tensor_name.startswith(export_scope):
            return None
        found = message_class("SaverDef")()
        found.CopyFrom(self.saver_def)
        for name in names:
            setattr(found, name, getattr(found, name).removeprefix(export_scope.rstrip("/") + "/"))
        return found

    @staticmethod
    def from_proto(saver_def: object, import_scope: str | None = None) -> Saver:
        """Make the Saver of a SaverDef, from nodes of the graph."""
        return Saver(saver_def=saver_def, name=import_scope)

    @property
    def last_checkpoints(self) -> list[str]:
        """Kept checkpoints, newest last."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Take over earlier checkpoints, without times."""
        if not isinstance(last_checkpoints, list):
            raise AssertionError
        self._last_checkpoints = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Sequence[tuple[str, float]]) -> None:
        """Take over earlier checkpoints, with their times in seconds since 1970."""
        if not isinstance(last_checkpoints_with_time, list):
            raise AssertionError
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Take over the earlier checkpoints that still exist."""
        there = [path for path in checkpoint_paths if states.checkpoint_exists(path)]
        self.set_last_checkpoints_with_time(list(zip(there, states.get_checkpoint_mtimes(there), strict=True)))

    # --- saving

    def save(
        self,
        sess: RunningSession,
        save_path: StrPath,
        global_step: TensorLike | None = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Write a checkpoint, and return its prefix.  Raises TypeError or ValueError for an invalid session or path."""
        if not self._is_built and not self._is_empty:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        state_file = latest_filename or STATE_FILE
        save_path = os.fspath(save_path)
        prefix = self._prefix(sess, save_path, global_step, state_file)
        if not isinstance(sess, tf.Session) and not hasattr(sess, "run"):
            raise TypeError(f"'sess' must be a Session; {sess}")
        path = None if self._is_empty else self._write(sess, prefix, save_path)
        if path is not None and write_state:
            self._keep(path)
            states.update_checkpoint_state(
                os.path.dirname(save_path),
                path,
                self.last_checkpoints,
                latest_filename=state_file,
                save_relative_paths=self._save_relative_paths,
            )
            self._delete_old(meta_graph_suffix)
        if write_meta_graph:
            with sess.graph.as_default():
                self.export_meta_graph(f"{prefix}.{meta_graph_suffix}", strip_default_attrs=strip_default_attrs)
        return path

    def _prefix(self, sess: RunningSession, save_path: str, global_step: TensorLike | None, state_file: str) -> str:
        """A checkpoint's prefix: the path, and the step if given.  Raises ValueError for an invalid path."""
        if os.path.split(state_file)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        if global_step is not None:
            if not isinstance(global_step, int):
                global_step = tf.train.global_step(sess, global_step)
            return f"{save_path}-{global_step:08d}" if self._pad_step_number else f"{save_path}-{global_step}"
        if os.path.basename(save_path) == state_file and not self.saver_def.sharded:
            raise ValueError(f"'latest_filename' collides with 'save_path': '{state_file}' and '{save_path}'")
        return save_path

    def _write(self, sess: RunningSession, prefix: str, save_path: str) -> str:
        """Run the op that saves, and return the path.  Raises ValueError for a missing directory."""
        try:
            saved = sess.run(self.saver_def.save_tensor_name, {self.saver_def.filename_tensor_name: prefix})
        except errors.OpError as error:
            if not os.path.isdir(os.path.dirname(save_path)):
                raise ValueError(f"Parent directory of {save_path} doesn't exist, can't save.") from error
            raise
        return saved.decode() if isinstance(saved, bytes) else str(saved)

    def _keep(self, path: str) -> None:
        """Add a checkpoint to the last ones, and mark the oldest for deletion if there are more than `max_to_keep`."""
        limit = self.saver_def.max_to_keep
        earlier = [item for item in self._last_checkpoints if item[0] != path] if limit else []
        self._last_checkpoints = [*earlier, (path, time.time())]
        if limit and len(self._last_checkpoints) > limit:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _delete_old(self, meta_graph_suffix: str) -> None:
        while self._checkpoints_to_be_deleted:
            path, saved = self._checkpoints_to_be_deleted.pop(0)
            if saved > self._next_checkpoint_time:
                self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
                continue
            states.remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: object = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """Write the graph, its collections and this Saver's SaverDef.  Returns the MetaGraphDef."""
        settings = {key: value for key, value in locals().items() if key not in ("self", "save_debug_info")}
        return export_meta_graph(**settings, saver_def=self.saver_def)

    # --- restoring

    def restore(self, sess: RunningSession, save_path: StrPath) -> None:
        """Assign a checkpoint's values to the variables.

        Raises ValueError if the path has no checkpoint, NotFoundError or InvalidArgumentError if it does not fit the graph.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        path = os.fspath(save_path)
        if not states.checkpoint_exists(path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {path}")
        tf.logging.info("Restoring parameters from %s", path)
        try:
            sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: path})
        except errors.NotFoundError as error:
            raise _restore_error(error, "a Variable name or other graph key that is missing from the checkpoint") from error
        except errors.InvalidArgumentError as error:
            raise _restore_error(error, "a mismatch between the current graph and the graph from the checkpoint") from error


def _restore_error(error: errors.OpError, reason: str) -> errors.OpError:
    kind: Any = type(error)
    return kind(error.node_def, error.op, f"{_FAILED} {reason}. {_CHECK}\n\n{error.message}")  # type: ignore[no-any-return]
