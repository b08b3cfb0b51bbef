"""`tf.train.SyncReplicasOptimizer`: a step applies the mean gradients of several workers.

Each worker adds its gradients to accumulators, and then waits for a token.  When the accumulators have enough gradients, the
chief's queue runner applies the means, and enqueues the tokens of the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.optimizers.optimizer import Optimizer
from placesim.tf1.queues.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from placesim.tf1.queues.queue_runners import Coordinator, QueueRunner
from placesim.tf1.queues.queues import FIFOQueue
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.run_hooks import SessionRunHook
from placesim.tf1.training.session_manager import missing_of


class SyncReplicasOptimizer(Optimizer):
    """Wraps the optimizer that applies the gradients."""

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        tf.logging.info("SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s", replicas_to_aggregate, total)
        self._opt = opt
        self._replicas_to_aggregate, self._total_num_replicas = replicas_to_aggregate, total
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._variable_averages, self._variables_to_average = variable_averages, variables_to_average
        self._gradients_applied = False
        self._accumulators: list[tuple[Any, str]] = []
        self.local_step_init_op: Any = None
        self.chief_init_op: Any = None
        self.ready_for_local_init_op: Any = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Like the wrapped optimizer."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def variables(self) -> Any:
        """The variables of the wrapped optimizer."""
        return self._opt.variables()

    def get_slot_names(self, *args: object, **kwargs: object) -> Any:
        """The slot names of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None, skip_gradients_aggregation: bool = False
    ) -> Any:
        """Make the op of a worker's step.  Raises ValueError without variables or without a global step."""
        given = list(grads_and_vars)
        if not given:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        anchor = tf.no_op()
        with tf.colocate_with(anchor):  # on the worker, whatever device its variables are on
            self._local_step = tf.Variable(
                initial_value=0,
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self.local_step_init_op = tf.assign(self._local_step, global_step)
        self.ready_for_local_init_op = tf.report_uninitialized_variables(tf.global_variables())
        with tf.name_scope(None, self._name):
            applied, taken = self._accumulate(given)
            # an empty name leaves all scopes
            with tf.device(global_step.device), tf.name_scope(""):
                update = self._opt.apply_gradients(zip(taken, [variable for _, variable in given], strict=True), global_step)
                train_op = self._exchange_tokens(applied, update)
            begun = [self.local_step_init_op]
            for accumulator, device in self._accumulators:
                with tf.device(device):
                    begun.append(accumulator.set_global_step(global_step, name="SetGlobalStep"))
            self.chief_init_op = tf.group(*begun)
            self._gradients_applied = True
            return train_op

    def _accumulate(self, grads_and_vars: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
        """Make the ops that add this worker's gradients, and the tensors of all workers' mean gradients."""
        applied: list[Any] = []
        taken: list[Any] = []
        for gradient, variable in grads_and_vars:
            with tf.device(variable.device):
                if gradient is None:
                    taken.append(None)
                    continue
                shared = variable.name + "/grad_accum"
                accumulator: Any
                if isinstance(gradient, Tensor):
                    accumulator = ConditionalAccumulator(gradient.dtype, shape=variable.get_shape(), shared_name=shared)
                    applied.append(accumulator.apply_grad(gradient, local_step=self._local_step))
                    taken.append(accumulator.take_grad(self._replicas_to_aggregate))
                else:
                    if not isinstance(gradient, tf.IndexedSlices):
                        raise ValueError("Unknown grad type!")
                    accumulator = SparseConditionalAccumulator(gradient.dtype, shape=(), shared_name=shared)
                    applied.append(accumulator.apply_indexed_slices_grad(gradient, local_step=self._local_step))
                    taken.append(accumulator.take_indexed_slices_grad(self._replicas_to_aggregate))
                self._accumulators.append((accumulator, variable.device))
        return applied, taken

    def _exchange_tokens(self, applied: Sequence[Any], update: object) -> Any:
        """Make a worker's op that waits for a token, and the chief's queue runner, which enqueues the tokens."""
        step = self._global_step
        self._tokens = FIFOQueue(-1, step.dtype.base_dtype, shapes=(), name="sync_token_q", shared_name="sync_token_q")
        with tf.control_dependencies(applied):
            token = self._tokens.dequeue()
        train_op = tf.assign(self._local_step, token)
        with tf.control_dependencies([update]):
            enqueue = self._tokens.enqueue_many((tf.fill([self._tokens_per_step], step),))
        if self._variable_averages is not None:
            with tf.control_dependencies([enqueue]), tf.name_scope(""):
                enqueue = self._variable_averages.apply(self._variables_to_average)
        self._chief_queue_runner = QueueRunner(self._tokens, [enqueue])
        return train_op

    def get_chief_queue_runner(self) -> QueueRunner:
        """Queue runner of the chief. Raises ValueError before `apply_gradients`."""
        if not self._gradients_applied:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """Make an op that enqueues the first tokens.  Raises ValueError for too few, and before `apply_gradients`."""
        if not self._gradients_applied:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)")
        if num_tokens <= 0:
            return tf.no_op(name="no_init_tokens")
        with tf.device(self._global_step.device), tf.name_scope(""):
            return self._tokens.enqueue_many((tf.fill([num_tokens], self._global_step),))

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """The hook that a monitored session of this training needs."""
        return _SyncReplicasHook(self, is_chief, num_tokens)


class _SyncReplicasHook(SessionRunHook):
    """Initializes the local step; the chief's hook also enqueues tokens and starts the queue runner."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer, self._is_chief, self._num_tokens = optimizer, is_chief, num_tokens

    def begin(self) -> None:
        """Raises ValueError before `apply_gradients`."""
        sync = self._optimizer
        if sync._gradients_applied is False:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        self._init_op = sync.chief_init_op if self._is_chief else sync.local_step_init_op
        self._runner = sync.get_chief_queue_runner() if self._is_chief else None
        self._init_tokens_op = sync.get_init_tokens_op(self._num_tokens) if self._is_chief else None

    def after_create_session(self, session: RunningSession, coord: Coordinator) -> None:
        """Raise RuntimeError if the model is not ready."""
        doubt = "Model is not ready for SyncReplicasOptimizer local init."
        missing = missing_of(self._optimizer.ready_for_local_init_op, session, doubt)
        if missing is not None:
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. "
                f"Init op: {self._init_op.name}, error: {missing}"
            )
        session.run(self._init_op)
        if self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        if self._runner is not None:
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)
