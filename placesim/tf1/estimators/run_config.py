"""`tf.estimator.RunConfig`: the settings of an estimator, and the task that the variable TF_CONFIG makes of this process."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.training.cluster_spec import ClusterSpec
from placesim.tf1.types.read_only import read_only

CHIEF, MASTER, WORKER, PS, EVALUATOR = "chief", "master", "worker", "ps", "evaluator"

_DEFAULT: Any = object()
"""An interval of checkpoints that was not given."""
_REPLACEABLE = (
    "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs", "session_config",
    "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps", "train_distribute", "device_fn",
    "protocol", "eval_distribute", "experimental_distribute", "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs", "checkpoint_save_graph_def",
)  # fmt: skip

_CHECKS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("model_dir", bool, "should be non-empty"),
    ("save_summary_steps save_checkpoints_steps save_checkpoints_secs keep_checkpoint_max", lambda x: x >= 0, "should be >= 0"),
    ("session_config", lambda x: isinstance(x, tf.ConfigProto), "must be instance of ConfigProto"),
    ("keep_checkpoint_every_n_hours log_step_count_steps session_creation_timeout_secs", lambda x: x > 0, "should be > 0"),
    ("tf_random_seed", lambda x: isinstance(x, int), "must be integer."),
    ("experimental_max_worker_delay_secs", lambda x: isinstance(x, int), "must be an integer if set."),
)
"""Conditions of settings that are not None: names, condition and the rest of the error's sentence."""


class RunConfig:
    """Settings of an estimator.  Raises ValueError for a wrong setting, and for a task that is not in the cluster."""

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = _DEFAULT,
        save_checkpoints_secs: float | None = _DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is _DEFAULT:
            save_checkpoints_steps = None
        given = locals()
        surroundings = json.loads(os.environ.get("TF_CONFIG") or "{}")
        folder = None if model_dir is None else os.fspath(model_dir)
        of_cluster = surroundings.get("model_dir")
        if folder and of_cluster and folder != of_cluster:
            raise ValueError(
                f"`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir in TF_CONFIG. "
                f'model_dir: {folder}\nTF_CONFIG["model_dir"]: {of_cluster}.\n'
            )
        for name in _REPLACEABLE:
            setattr(self, "_" + name, given[name])
        self._model_dir = folder or of_cluster
        self._check()
        self._take_task(surroundings)

    model_dir = read_only("_model_dir")
    tf_random_seed = read_only("_tf_random_seed")
    save_summary_steps = read_only("_save_summary_steps")
    save_checkpoints_steps = read_only("_save_checkpoints_steps")
    save_checkpoints_secs = read_only("_save_checkpoints_secs")
    session_config = read_only("_session_config")
    keep_checkpoint_max = read_only("_keep_checkpoint_max")
    keep_checkpoint_every_n_hours = read_only("_keep_checkpoint_every_n_hours")
    log_step_count_steps = read_only("_log_step_count_steps")
    train_distribute = read_only("_train_distribute")
    device_fn = read_only("_device_fn")
    protocol = read_only("_protocol")
    eval_distribute = read_only("_eval_distribute")
    experimental_distribute = read_only("_experimental_distribute")
    experimental_max_worker_delay_secs = read_only("_experimental_max_worker_delay_secs")
    session_creation_timeout_secs = read_only("_session_creation_timeout_secs")
    checkpoint_save_graph_def = read_only("_checkpoint_save_graph_def")
    cluster_spec = read_only("_cluster_spec")
    evaluation_master = read_only("_evaluation_master")
    is_chief = read_only("_is_chief")
    master = read_only("_master")
    num_ps_replicas = read_only("_num_ps_replicas")
    num_worker_replicas = read_only("_num_worker_replicas")
    task_id = read_only("_task_id")
    task_type = read_only("_task_type")
    global_id_in_cluster = read_only("_global_id_in_cluster")
    service = read_only("_service")

    def _check(self) -> None:
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        for names, is_valid, wanted in _CHECKS:
            for name in names.split():
                value = getattr(self, name)
                if value is not None and not is_valid(value):
                    raise ValueError(f"{name} {wanted}")

    def _take_task(self, surroundings: dict[str, Any]) -> None:
        """Read the cluster and this process's task in it from TF_CONFIG."""
        task = surroundings.get("task", {})
        self._cluster_spec = ClusterSpec(surroundings.get("cluster", {}))
        self._service = surroundings.get("service")
        first = MASTER if MASTER in self._cluster_spec.jobs else CHIEF
        self._task_type = task.get("type", None if self._cluster_spec else WORKER)
        self._task_id = int(task.get("index", 0))
        self._num_ps_replicas, self._num_worker_replicas = 0, 1
        self._global_id_in_cluster: int | None = 0
        if self._task_type == EVALUATOR and first == CHIEF:
            # an evaluator is not part of the cluster that trains
            self._cluster_spec = ClusterSpec({})
            self._num_worker_replicas, self._global_id_in_cluster, self._is_chief = 0, None, False
            self._master, self._evaluation_master = "", surroundings.get("eval_session_master", "")
        elif self._cluster_spec:
            self._check_task(task, first)
            jobs = {job: self._cluster_spec.num_tasks(job) for job in self._cluster_spec.jobs}
            others = sorted(job for job in jobs if job not in (first, PS))
            order = [first, *others, PS]
            self._num_ps_replicas = jobs.get(PS, 0)
            self._num_worker_replicas = jobs.get(WORKER, 0) + jobs.get(first, 0)
            self._global_id_in_cluster = sum(jobs[job] for job in order[: order.index(self._task_type)]) + self._task_id
            self._is_chief = self._task_type == first
            address = self._cluster_spec.task_address(self._task_type, self._task_id)
            self._master = surroundings.get("session_master", "" if sum(jobs.values()) == 1 else f"grpc://{address}")
            self._evaluation_master = ""
            if not self.session_config:
                self._session_config = self._config_of_task()
        else:
            if self._task_type != WORKER:
                raise ValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
            if self._task_id != 0:
                raise ValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')
            self._is_chief = True
            self._master = surroundings.get("session_master", "")
            self._evaluation_master = surroundings.get("eval_session_master", "")

    def _check_task(self, task: dict[str, Any], first: str) -> None:
        jobs = self._cluster_spec.jobs
        if first not in jobs:
            raise ValueError(f'If "cluster" is set in TF_CONFIG, it must have one "{first}" node.')
        if self._cluster_spec.num_tasks(first) > 1:
            raise ValueError(f'The "cluster" in TF_CONFIG must have only one "{first}" node.')
        if not self._task_type:
            raise ValueError('If "cluster" is set in TF_CONFIG, task type must be set.')
        if "index" not in task:
            raise ValueError('If "cluster" is set in TF_CONFIG, task index must be set.')
        if self._task_type not in jobs:
            raise ValueError(
                f"{self._task_type} is not a valid task_type in the cluster_spec:\n{self._cluster_spec}\n\nNote that these "
                "values may be coming from the TF_CONFIG environment variable."
            )
        if not 0 <= self._task_id < self._cluster_spec.num_tasks(self._task_type):
            raise ValueError(
                f"{self._task_id} is not a valid task_id for task_type {self._task_type} in the cluster_spec:\n"
                f"{self._cluster_spec}\n\nNote that these values may be coming from the TF_CONFIG environment variable."
            )

    def _config_of_task(self) -> Any:
        """Options of a session that sees only its own task and the parameter servers."""
        own = f"/job:worker/task:{self._task_id}" if self._task_type == WORKER else f"/job:{self._task_type}"
        seen = ["/job:ps", "/job:worker", "/job:chief", "/job:master"] if self._task_type == PS else ["/job:ps", own]
        return tf.ConfigProto(allow_soft_placement=True, device_filters=seen)

    def replace(self, **kwargs: object) -> RunConfig:
        """A copy with other settings.  Raises ValueError for a property that can't be replaced."""
        for name in kwargs:
            if name not in _REPLACEABLE:
                raise ValueError(f"Replacing {name} is not supported. Allowed properties are {list(_REPLACEABLE)}.")
        found = copy.copy(self)
        if "save_checkpoints_steps" in kwargs and "save_checkpoints_secs" not in kwargs:
            kwargs["save_checkpoints_secs"] = None
        elif "save_checkpoints_secs" in kwargs and "save_checkpoints_steps" not in kwargs:
            kwargs["save_checkpoints_steps"] = None
        for name, value in kwargs.items():
            setattr(found, "_" + name, value)
        found._check()
        return found
