"""Loops of older scripts: `tf.train.basic_train_loop` and `tf.train.checkpoints_iterator`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from placesim.tf1.app import logging
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.saving.states import latest_checkpoint
from placesim.tf1.training.supervisor import Supervisor

_POLL_SECONDS = 1.0
"""TensorFlow's interval between two looks at the directory."""


def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    master: str = "",
) -> None:
    """`tf.train.basic_train_loop`: call a function with the supervisor's session until a stop is requested."""
    with supervisor.managed_session(master) as session:
        while not supervisor.should_stop():
            train_step_fn(session, *(args or ()), **(kwargs or {}))


def checkpoints_iterator(
    checkpoint_dir: StrPath,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], Any] | None = None,
) -> Iterator[str]:
    """`tf.train.checkpoints_iterator`: path of each new checkpoint in a directory.

    It ends after `timeout` seconds without a new checkpoint.  If `timeout_fn` is given, the iterator ends only when this
    function returns true.  The function is called after each checkpoint and each timeout.
    """
    last: str | None = None
    while True:
        found = _wait_for_another(checkpoint_dir, last, timeout)
        if found is None and timeout_fn is None:
            logging.info("Timed-out waiting for a checkpoint (without timeout_fn).")
            return
        if found is not None:
            began, last = time.time(), found
            yield found
            time.sleep(max(0.0, began + min_interval_secs - time.time()))
        if timeout_fn is not None and timeout_fn():
            logging.info("Done. No new checkpoints will be generated.")
            return


def _wait_for_another(directory: StrPath, last: str | None, timeout: float | None) -> str | None:
    """Path of a checkpoint other than the last; None after the timeout."""
    logging.info("Waiting for new checkpoint at %s", directory)
    until = None if timeout is None else time.time() + timeout
    while True:
        found: str | None = latest_checkpoint(directory)
        if found is not None and found != last:
            logging.info("Found new checkpoint at %s", found)
            return found
        if until is not None and time.time() + _POLL_SECONDS > until:
            return None
        time.sleep(_POLL_SECONDS)
