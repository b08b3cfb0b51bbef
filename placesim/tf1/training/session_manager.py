"""`tf.train.SessionManager`: makes sessions with a ready model, which it restores, initializes or waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1 import errors
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.session import watching
from placesim.tf1.session.sessions import BaseSession
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.own_steps import run_own


class SessionManager:
    """Makes sessions of a graph.  Raises ValueError for a `ready_for_local_init_op` without a `local_init_op`."""

    def __init__(
        self,
        local_init_op: Operation | Tensor | None = None,
        ready_op: Operation | Tensor | None = None,
        ready_for_local_init_op: Operation | Tensor | None = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: object = None,
        local_init_feed_dict: object = None,
    ) -> None:
        self._graph = tf.get_default_graph() if graph is None else graph
        self._local_init_op, self._local_init_feed_dict = local_init_op, local_init_feed_dict
        self._local_init_run_options = local_init_run_options
        self._ready_op, self._ready_for_local_init_op = ready_op, ready_for_local_init_op
        self._wait_secs = recovery_wait_secs
        self._init_op_here: Any = None
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op , "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )

    # --- sessions

    def prepare_session(
        self,
        master: str,
        init_op: object = None,
        saver: object = None,
        checkpoint_dir: object = None,
        checkpoint_filename_with_path: object = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: object = None,
        init_feed_dict: object = None,
        init_fn: Callable[[Any], object] | None = None,
    ) -> Any:
        """Session with restored or initialized variables.  Raises RuntimeError if it is not ready afterwards."""
        session, is_loaded = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        if not is_loaded:
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                session.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(session)
        # local variables are in no checkpoint, so they are initialized after restoring too
        for check, what, local in (
            (self._run_local_init, "make model ready for local_init.", ""),
            (self._readiness, "make model ready.", f"local_init_op: {_name(self._local_init_op)}, "),
        ):
            missing = check(session)
            if missing is not None:
                raise RuntimeError(
                    f"Init operations did not {what}  Init op: {_name(init_op)}, init fn: {init_fn}, {local}error: {missing}"
                )
        return session

    def recover_session(
        self,
        master: str,
        saver: object = None,
        checkpoint_dir: object = None,
        checkpoint_filename_with_path: object = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: object = None,
    ) -> tuple[Any, bool]:
        """Session restored from a checkpoint if there is one, and whether it is initialized."""
        session, is_loaded = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        missing = self._run_local_init(session)
        restoring = "Restoring model from %s did not make model ready%s: %s"
        source = checkpoint_dir or checkpoint_filename_with_path
        if not is_loaded:
            return session, missing is None and self._ready_op is not None and self._readiness(session) is None
        if missing is not None:
            tf.logging.info(restoring, source, " for local init", missing)
            return session, False
        missing = self._readiness(session)
        if missing is not None:
            tf.logging.info(restoring, source, "", missing)
            return session, False
        tf.logging.info("Restored model from %s", source)
        return session, True

    def wait_for_session(self, master: str, config: object = None, max_wait_secs: float | None = float("inf")) -> Any:
        """Session with a ready model.  Raises DeadlineExceededError after `max_wait_secs`."""
        limit = float("inf") if max_wait_secs is None else max_wait_secs
        began = time.monotonic()
        while True:
            session = tf.Session(master, graph=self._graph, config=config)
            not_ready = None
            not_ready_for_local = self._run_local_init(session)
            if not_ready_for_local is None:
                not_ready = self._readiness(session)
                if not_ready is None:
                    return session
            # try again at once with a new session
            if self._initialize_here(session):
                continue
            session.close()
            # TensorFlow gives up if the next wait would exceed the limit
            if limit - (time.monotonic() - began) < self._wait_secs:
                raise errors.DeadlineExceededError(None, None, f"Session was not ready after waiting {int(limit)} secs.")
            tf.logging.info(
                "Waiting for model to be ready.  Ready_for_local_init_op:  %s, ready: %s", not_ready_for_local, not_ready
            )
            time.sleep(self._wait_secs)

    def initializes_here(self, init_op: object) -> SessionManager:
        """Set the chief's `init_op`, to be run here if there is no chief.  Return this manager."""
        self._init_op_here = init_op
        return self

    def _initialize_here(self, session: BaseSession) -> bool:
        """Initialize the model once, if no other process of the simulated cluster can.  Return whether it was done."""
        from placesim.tf1.training.servers import is_alone

        if self._init_op_here is None or not is_alone(session.sess_str.decode()):
            return False
        from placesim.tf1.training.servers import tell

        tell("no chief runs beside this task, so that it initializes the model itself")
        session.run(self._init_op_here)
        self._init_op_here = None
        return True

    # --- restoring, local initialization and readiness

    def _restored(
        self, master: str, saver: Any, folder: object, file: Any, waits: bool, max_wait_secs: float, config: object
    ) -> tuple[Any, bool]:
        """New session, and whether a checkpoint was restored in it."""
        session = tf.Session(master, graph=self._graph, config=config)
        if folder and file:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        if not saver or not (folder or file):
            return session, False
        if file:
            saver.restore(session, file)
            return session, True
        waited = 0.0
        state = tf.train.get_checkpoint_state(folder)
        while not state or not state.model_checkpoint_path:
            if not waits or waited >= max_wait_secs or not watching.computes_steps():
                return session, False
            tf.logging.info("Waiting for checkpoint to be available.")
            time.sleep(self._wait_secs)
            waited += self._wait_secs
            state = tf.train.get_checkpoint_state(folder)
        saver.restore(session, state.model_checkpoint_path)
        # so that old files count for `max_to_keep`
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return session, True

    def _run_local_init(self, session: BaseSession) -> str | None:
        """Run the local init op if the model is ready for it.  Return what is missing, None if nothing is."""
        if self._local_init_op is None:
            return None
        missing = missing_of(self._ready_for_local_init_op, session, "Model not ready for local init")
        if missing is not None:
            return missing
        tf.logging.info("Running local_init_op.")
        session.run(self._local_init_op, feed_dict=self._local_init_feed_dict, options=self._local_init_run_options)
        tf.logging.info("Done running local_init_op.")
        return None

    def _readiness(self, session: RunningSession) -> str | None:
        return missing_of(self._ready_op, session, "Model not ready")


def missing_of(ready_op: object, session: RunningSession, doubt: str) -> str | None:
    """Report of uninitialized variables, None if there are none."""
    if ready_op is None:
        return None
    try:
        found = run_own(session, ready_op, None)
    except errors.FailedPreconditionError as error:
        # the report itself may read an uninitialized variable, which means not ready
        if "uninitialized" not in str(error):
            tf.logging.warning("%s : error %s", doubt, error)
            raise
        return str(error)
    if found is None or found.size == 0:
        return None
    return "Variables not initialized: " + ", ".join(name.decode() for name in found)


def _name(op: object) -> Any:
    return op.name if hasattr(op, "name") else None
