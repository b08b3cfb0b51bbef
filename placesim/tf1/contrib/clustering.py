"""`tf.contrib.factorization.KMeans`: the graph that finds clusters by k-means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import placesim.tf1 as tf

RANDOM_INIT, KMEANS_PLUS_PLUS_INIT, KMC2_INIT = "random", "kmeans_plus_plus", "kmc2"
SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = "squared_euclidean", "cosine"
CLUSTERS_VAR_NAME = "clusters"


class KMeans:
    """Clusters of the rows of `inputs`, a matrix or a list of matrices.

    With `use_mini_batch`, centers move slightly in each step. Rows are assigned to clusters by a copy of the centers, which is
    updated every `mini_batch_steps_per_iteration` steps.
    """

    def __init__(
        self,
        inputs: Any,
        num_clusters: Any,
        initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
        use_mini_batch: bool = False,
        mini_batch_steps_per_iteration: int = 1,
        random_seed: int = 0,
        kmeans_plus_plus_num_retries: int = 2,
        kmc2_chain_length: int = 200,
    ) -> None:
        """Raise ValueError for an unknown initialization or distance."""
        known = (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT, KMC2_INIT)
        if isinstance(initial_clusters, str) and initial_clusters not in known:
            raise ValueError(f"Unsupported initialization algorithm '{initial_clusters}'")
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(f"Unsupported distance metric '{distance_metric}'")
        self._inputs = inputs if isinstance(inputs, list) else [inputs]
        self._num_clusters, self._initial_clusters = num_clusters, initial_clusters
        self._is_cosine = distance_metric == COSINE_DISTANCE
        self._use_mini_batch, self._steps = use_mini_batch, int(mini_batch_steps_per_iteration)
        self._random_seed, self._retries, self._chain_length = random_seed, kmeans_plus_plus_num_retries, kmc2_chain_length

    @property
    def _has_copy(self) -> bool:
        """Whether steps move a copy of the centers."""
        return self._use_mini_batch and self._steps > 1

    @property
    def _keeps_unit_centers(self) -> bool:
        return self._is_cosine and (not self._use_mini_batch or self._has_copy)

    def training_graph(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Distances to all centers, nearest centers, distances to these, whether all centers are initialized, and two ops.

        The first op chooses initial centers and must run until all are chosen. The second op is a training step.
        """
        if isinstance(self._initial_clusters, str) or callable(self._initial_clusters):
            initial, count = self._initial_clusters, tf.convert_to_tensor(self._num_clusters)
        else:
            initial = tf.convert_to_tensor(self._initial_clusters)
            count = tf.shape(initial)[0]
        inputs = self._inputs
        centers, is_initialized, counts, moved, steps_left = self._variables(count)
        init_op = _Initialization(inputs, count, initial, centers, moved, is_initialized, self).op()
        assigned_by = centers
        if self._is_cosine:
            inputs = [_beside(one, partial(tf.nn.l2_normalize, one, dim=1)) for one in inputs]
            if not self._keeps_unit_centers:
                assigned_by = tf.nn.l2_normalize(assigned_by, dim=1)
        all_scores, scores, indices = self._assignments(inputs, assigned_by)
        if self._use_mini_batch:
            sync = self._sync(steps_left, centers, moved, counts) if self._has_copy else tf.no_op()
            with tf.control_dependencies([sync]):
                training_op = self._mini_batch_step(inputs, indices, moved, counts)
        else:
            training_op = self._full_step(inputs, count, indices, centers)
        return all_scores, indices, scores, is_initialized, init_op, training_op

    def _variables(self, count: Any) -> tuple[Any, Any, Any, Any, Any]:
        """The centers, whether they are initialized, cluster sizes, the moving copy, and the steps until the copy is used."""
        empty = tf.constant([], dtype=tf.float32)
        centers = tf.Variable(empty, name=CLUSTERS_VAR_NAME, validate_shape=False)
        is_initialized = tf.Variable(False, dtype=tf.bool, name="initialized")
        if self._has_copy:
            moved = tf.Variable(empty, name="clusters_updated", validate_shape=False)
            steps_left = tf.Variable(self._steps, dtype=tf.int64, name="update_in_steps")
            return centers, is_initialized, tf.Variable(tf.zeros([count], dtype=tf.int64)), moved, steps_left
        counts = tf.Variable(tf.ones([count], dtype=tf.int64)) if self._use_mini_batch else None
        return centers, is_initialized, counts, centers, None

    def _assignments(self, inputs: list[Any], centers: Any) -> Any:
        scores = [_beside(one, partial(self._distances, one, centers)) for one in inputs]
        if self._is_cosine and not self._keeps_unit_centers:
            # of unit vectors, the squared distance is twice the cosine distance
            centers = _beside(centers, partial(tf.nn.l2_normalize, centers, dim=1))
        found = []
        for one, score in zip(inputs, scores, strict=True):
            with tf.colocate_with(one, ignore_existing=True):
                indices, distances = tf.raw_ops.NearestNeighbors(points=one, centers=centers, k=1)
                distances = distances * 0.5 if self._is_cosine else distances
                found.append((score, tf.squeeze(distances, [-1]), tf.squeeze(indices, [-1])))
        return zip(*found, strict=True)

    def _distances(self, rows: Any, centers: Any) -> Any:
        """Distances of rows from all centers."""
        if self._is_cosine:
            return 1 - tf.matmul(rows, centers, transpose_b=True)
        own = tf.reduce_sum(tf.square(rows), 1, keepdims=True) - 2 * tf.matmul(rows, centers, transpose_b=True)
        return own + tf.transpose(tf.reduce_sum(tf.square(centers), 1, keepdims=True))

    def _sync(self, steps_left: Any, centers: Any, moved: Any, counts: Any) -> Any:
        """Replace the centers by the copy if no steps are left; else decrement the number of steps."""

        def take_copy() -> Any:
            with tf.control_dependencies([tf.assign(steps_left, self._steps - 1)]):
                found = moved
                with tf.colocate_with(moved, ignore_existing=True):
                    if self._is_cosine:
                        found = tf.nn.l2_normalize(moved, dim=1)
                with (
                    tf.colocate_with(centers, ignore_existing=True),
                    tf.control_dependencies([tf.assign(centers, found)]),
                    tf.colocate_with(None, ignore_existing=True),
                    tf.control_dependencies([tf.assign(counts, tf.zeros_like(counts))]),
                ):
                    return tf.identity(steps_left)

        with tf.colocate_with(steps_left, ignore_existing=True):
            return tf.cond(steps_left <= 0, take_copy, lambda: tf.assign_sub(steps_left, 1))

    def _mini_batch_step(self, inputs: list[Any], indices: Any, centers: Any, counts: Any) -> Any:
        """Move each center by the mean difference of its new members, weighted by the number of all members so far."""
        updates = []
        for one, own in zip(inputs, indices, strict=True):
            with tf.colocate_with(one, ignore_existing=True):
                clusters, places = tf.unique(tf.reshape(own, [-1]))
                size = tf.size(clusters)
                old_counts = _beside(counts, partial(tf.gather, counts, clusters))
                old_centers = _beside(centers, partial(tf.gather, centers, clusters))
                more = tf.unsorted_segment_sum(tf.ones_like(places, dtype=counts.dtype), places, size)
                change = tf.unsorted_segment_sum(one, places, size)
                first = tf.reshape(size, [1])
                column = tf.concat([first, tf.ones(tf.reshape(tf.rank(one) - 1, [1]), dtype=tf.int32)], 0)
                change -= tf.cast(tf.reshape(more, column), one.dtype) * old_centers
                rate = tf.reciprocal(tf.cast(old_counts + more, one.dtype))
                change *= tf.reshape(rate, column)
            updates += [tf.scatter_add(counts, clusters, more), tf.scatter_add(centers, clusters, change)]
        return tf.group(*updates)

    def _full_step(self, inputs: list[Any], count: Any, indices: Any, centers: Any) -> Any:
        """Move each center to the mean of its members."""
        sums, counts = [], []
        epsilon = tf.constant(1e-6, dtype=inputs[0].dtype)
        for one, own in zip(inputs, indices, strict=True):
            with tf.colocate_with(one, ignore_existing=True):
                sums.append(tf.unsorted_segment_sum(one, own, count))
                ones = tf.reshape(tf.ones(tf.reshape(tf.shape(one)[0], [-1])), [-1, 1])
                counts.append(tf.unsorted_segment_sum(ones, own, count))
        with tf.colocate_with(centers, ignore_existing=True):
            found = tf.add_n(sums) / (tf.cast(tf.add_n(counts), sums[0].dtype) + epsilon)
            if self._keeps_unit_centers:
                found = tf.nn.l2_normalize(found, dim=1)
        return tf.assign(centers, found)


class _Initialization:
    """The op that chooses the first centers from the inputs, in one or more runs."""

    def __init__(
        self, inputs: list[Any], count: Any, initial: Any, centers: Any, moved: Any, is_initialized: Any, kmeans: KMeans
    ) -> None:
        self._inputs, self._count, self._initial, self._kmeans = inputs, count, initial, kmeans
        self._centers, self._moved, self._is_initialized = centers, moved, is_initialized
        self._chosen = tf.shape(centers)[0]
        self._missing = count - self._chosen
        self._rows = tf.add_n([tf.shape(one)[0] for one in inputs])

    def op(self) -> Any:
        """The op; it fails if all centers exist but the variable does not record this."""
        are_there = tf.equal(self._missing, 0)
        return tf.cond(are_there, lambda: tf.assert_equal(self._is_initialized, True), self._initialize)

    def _initialize(self) -> Any:
        with tf.control_dependencies([tf.assert_positive(self._missing)]):
            by_chains = isinstance(self._initial, str) and self._initial == KMC2_INIT
            missing = self._add_by_chains() if by_chains else self._add_centers()
            return tf.cond(tf.equal(missing, 0), lambda: tf.assign(self._is_initialized, True), tf.no_op)

    def _add_centers(self) -> Any:
        """Add centers; return the number of missing centers."""
        new = self._new_centers()
        if self._kmeans._is_cosine:
            new = tf.nn.l2_normalize(new, dim=1)
        # no rows can be added to centers without a shape
        both = tf.cond(tf.equal(self._chosen, 0), lambda: new, lambda: tf.concat([self._centers, new], 0))
        return self._count - tf.shape(self._assign(both))[0]

    def _add_by_chains(self) -> Any:
        """Add the first row, or the row at the end of each Markov chain; return the number of missing centers."""
        rows, length = self._inputs[0], self._kmeans._chain_length
        most = tf.cast(tf.shape(rows)[0] / length, dtype=tf.int32)
        count = tf.maximum(tf.minimum(self._missing, most), 1)

        def as_center(row: Any) -> Any:
            center = tf.reshape(row, [1, -1])
            return tf.nn.l2_normalize(center, dim=1) if self._kmeans._is_cosine else center

        def add(chain: Any, _: Any) -> Any:
            def end_of_chain() -> Any:
                start = chain * length
                part = rows[start : start + length]
                _, distances = tf.raw_ops.NearestNeighbors(points=part, centers=self._centers, k=1)
                end = tf.raw_ops.KMC2ChainInitialization(distances=tf.squeeze(distances), seed=self._kmeans._random_seed)
                return tf.concat([self._centers, as_center(part[end])], 0)

            centers = tf.cond(tf.equal(self._chosen, 0), lambda: as_center(rows[0]), end_of_chain)
            assigned = self._assign(centers)
            return chain + 1, self._count - tf.shape(assigned)[0]

        return tf.while_loop(lambda chain, _: tf.less(chain, count), add, [0, 0])[1]

    def _assign(self, both: Any) -> Any:
        assigned = tf.assign(self._centers, both, validate_shape=False)
        if self._moved is not self._centers:
            assigned = tf.assign(self._moved, assigned, validate_shape=False)
        return assigned

    def _new_centers(self) -> Any:
        if callable(self._initial):
            return self._initial(self._inputs, self._missing)
        if not isinstance(self._initial, str):
            with tf.control_dependencies([tf.assert_equal(self._missing, tf.shape(self._initial)[0])]):
                return self._initial
        if self._initial == RANDOM_INIT:
            return tf.cond(self._rows <= self._missing, lambda: tf.concat(self._inputs, 0), self._random_rows)
        with tf.control_dependencies([tf.assert_greater_equal(self._rows, self._missing)]):
            rows = self._inputs[0]
            if self._kmeans._is_cosine:
                rows = tf.nn.l2_normalize(rows, dim=1)
            return tf.raw_ops.KmeansPlusPlusInitialization(
                points=rows,
                num_to_sample=tf.cast(self._missing, tf.int64),
                seed=self._kmeans._random_seed,
                num_retries_per_sample=self._kmeans._retries,
            )

    def _random_rows(self) -> Any:
        count = tf.reshape(self._missing, [-1])
        limit = tf.cast(self._rows, tf.int64)
        places = tf.random_uniform(count, minval=0, maxval=limit, seed=self._kmeans._random_seed, dtype=tf.int64)
        return tf.nn.embedding_lookup(self._inputs, places, partition_strategy="div")


def _beside(value: Any, make: Callable[[], Any]) -> Any:
    """Call `make` with its ops colocated only with a tensor."""
    with tf.colocate_with(value, ignore_existing=True):
        return make()
