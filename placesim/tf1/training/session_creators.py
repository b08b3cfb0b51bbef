"""Session creators of monitored training: the chief's creator initializes the model, and workers' creators wait for it."""

from __future__ import annotations

import abc
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.training.scaffold import Scaffold
from placesim.tf1.training.session_manager import SessionManager


class SessionCreator(abc.ABC):
    """Makes the sessions of a monitored session."""

    @abc.abstractmethod
    def create_session(self) -> Any:
        """Session with a ready model."""


class ChiefSessionCreator(SessionCreator):
    """Makes sessions in which it restores or initializes the model."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config
        self._checkpoint_dir, self._checkpoint_file = checkpoint_dir, checkpoint_filename_with_path
        self._manager: SessionManager | None = None

    def create_session(self) -> Any:
        """Session restored from the newest checkpoint, or initialized."""
        scaffold = self._scaffold
        scaffold.finalize()
        self._manager = self._manager or _manager_of(scaffold)
        return self._manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_file,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


class WorkerSessionCreator(SessionCreator):
    """Makes sessions after waiting until the chief has initialized the model."""

    def __init__(
        self, scaffold: Scaffold | None = None, master: str = "", config: Any = None, max_wait_secs: float = 30 * 60
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master, self._config, self._max_wait_secs = master, config, max_wait_secs
        self._manager: SessionManager | None = None

    def create_session(self) -> Any:
        """Session with a ready model.  Raises DeadlineExceededError after the maximum wait."""
        self._scaffold.finalize()
        self._manager = self._manager or _manager_of(self._scaffold).initializes_here(self._scaffold.init_op)
        return self._manager.wait_for_session(self._master, config=self._config, max_wait_secs=self._max_wait_secs)


def _manager_of(scaffold: Scaffold) -> SessionManager:
    return SessionManager(
        local_init_op=scaffold.local_init_op,
        local_init_feed_dict=scaffold.local_init_feed_dict,
        ready_op=scaffold.ready_op,
        ready_for_local_init_op=scaffold.ready_for_local_init_op,
        graph=tf.get_default_graph(),
    )
