"""`tf.contrib.seq2seq`: helpers that provide a decoder's inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.rnn.dynamic import swapped
from placesim.tf1.types import dtypes, nest
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape

tf = namespace("")


class Helper:
    """Interface of the helpers of `BasicDecoder`, which users' classes may implement."""

    @property
    def batch_size(self) -> Any:
        """Number of sequences."""
        raise NotImplementedError("batch_size has not been implemented")

    @property
    def sample_ids_shape(self) -> Any:
        """Shape of the sampled ids per sequence."""
        return TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """Type of the sampled ids."""
        return tf.int32

    def initialize(self, name: str | None = None) -> Any:
        """Finished flags of the sequences, and the first inputs."""
        raise NotImplementedError

    def sample(self, time: object, outputs: object, state: object, name: str | None = None) -> Any:
        """Sample from the outputs."""
        raise NotImplementedError

    def next_inputs(self, time: Tensor, outputs: object, state: object, sample_ids: object, name: str | None = None) -> Any:
        """Finished flags of the sequences, the next inputs, and the state."""
        raise NotImplementedError


class _SizedHelper(Helper):
    """Helper whose batch size, and shape and type of sampled ids, are attributes."""

    _batch_size: Any = None
    _shape = TensorShape([])
    _dtype: Any = dtypes.int32

    batch_size = read_only("_batch_size")
    sample_ids_shape = read_only("_shape")
    sample_ids_dtype = read_only("_dtype")


class CustomHelper(_SizedHelper):
    """A helper defined by functions."""

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: ShapeLike | None = None,
        sample_ids_dtype: DTypeLike | None = None,
    ) -> None:
        self._initialize, self._sample, self._next_inputs = initialize_fn, sample_fn, next_inputs_fn
        self._shape = TensorShape(sample_ids_shape or [])
        self._dtype = sample_ids_dtype or tf.int32

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        with name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize()
            if self._batch_size is None:
                self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: object, outputs: object, state: object, name: str | None = None) -> Any:
        with name_scope(name, "CustomHelperSample", [time]):
            return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: object, outputs: object, state: object, sample_ids: object, name: str | None = None) -> Any:
        with name_scope(name, "CustomHelperNextInputs", [time]):
            return self._next_inputs(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(_SizedHelper):
    """Helper with given inputs, for training."""

    def __init__(self, inputs: Any, sequence_length: TensorLike, time_major: bool = False, name: str | None = None) -> None:
        with name_scope(name, "TrainingHelper", [sequence_length]):
            inputs = convert_inputs(inputs)
            if not time_major:
                inputs = nest.map_structure(swapped, inputs)
            self._inputs = nest.map_structure(_as_array, inputs)
            self._sequence_length = convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.rank != 1:
                raise ValueError(f"Expected sequence_length to be a vector, but received shape: {self._sequence_length.shape}")
            self._zeros = nest.map_structure(lambda value: tf.zeros_like(value[0, :]), inputs)
            self._batch_size = tf.size(self._sequence_length)

    sequence_length = read_only("_sequence_length", "Length of each sequence.")

    def _read(self, time: object, finished: object) -> Any:
        """A step's inputs; zeros after the end of all sequences."""
        return tf.cond(
            tf.reduce_all(finished),
            lambda: self._zeros,
            lambda: nest.map_structure(lambda array: array.read(time), self._inputs),
        )

    def initialize(self, name: str | None = None) -> Any:
        with name_scope(name, "TrainingHelperInitialize"):
            finished = tf.equal(0, self._sequence_length)
            return finished, self._read(0, finished)

    def sample(self, time: object, outputs: object, state: object, name: str | None = None) -> Any:
        with name_scope(name, "TrainingHelperSample", [time]):
            return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(
        self, time: Tensor, outputs: object, state: object, sample_ids: object = None, name: str | None = None
    ) -> Any:
        with name_scope(name, "TrainingHelperNextInputs", [time]):
            following = time + 1
            finished = following >= self._sequence_length
            return finished, self._read(following, finished), state


def convert_inputs(inputs: TensorLike) -> Any:
    """Inputs as tensors."""
    return nest.map_structure(lambda value: convert_to_tensor(value, name="inputs"), inputs)


def _as_array(value: Tensor) -> TensorArray:
    return TensorArray(value.dtype, size=tf.shape(value)[0], element_shape=value.shape[1:]).unstack(value)


def embedding_function(embedding: object) -> Callable[[Any], Any]:
    """Function from ids to embeddings, given as a function or as a table."""
    return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


def start_and_end(start_tokens: TensorLike, end_token: TensorLike) -> tuple[Any, Any]:
    """Start tokens and end token as tensors.  Raises ValueError for other shapes than a vector and a scalar."""
    start = convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
    end = convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
    if start.shape.rank != 1:
        raise ValueError("start_tokens must be a vector")
    if end.shape.rank != 0:
        raise ValueError("end_token must be a scalar")
    return start, end


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Helper that randomly replaces given inputs by embeddings of sampled outputs."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: TensorLike,
        embedding: Callable[[Any], Any] | TensorLike,
        sampling_probability: TensorLike,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        with name_scope(name, "ScheduledEmbeddingSamplingWrapper", [sampling_probability]):
            self._embed = embedding_function(embedding)
            self._probability = convert_to_tensor(sampling_probability, name="sampling_probability")
            if self._probability.shape.rank not in (0, 1):
                raise ValueError(
                    f"sampling_probability must be either a scalar or a vector. saw shape: {self._probability.shape}"
                )
            self._seed, self._scheduling_seed = seed, scheduling_seed
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time: object, outputs: object, state: object, name: str | None = None) -> Any:
        with name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time]):
            draws = tf.random_uniform([self.batch_size], seed=self._scheduling_seed) < self._probability
            drawn = tf.cast(tf.squeeze(tf.multinomial(outputs, 1, seed=self._seed), 1), tf.int32)
            return tf.where(draws, drawn, tf.fill([self.batch_size], -1))

    def next_inputs(self, time: Any, outputs: object, state: Any, sample_ids: Any = None, name: str | None = None) -> Any:
        with name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs", [time]):
            finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
            drawn = self._embed(tf.maximum(sample_ids, 0))
            return finished, tf.where(sample_ids > -1, drawn, given), state


class GreedyEmbeddingHelper(_SizedHelper):
    """Helper with embeddings of the previous output's most likely symbols."""

    def __init__(self, embedding: Callable[[Any], Any] | TensorLike, start_tokens: TensorLike, end_token: TensorLike) -> None:
        self._embed = embedding_function(embedding)
        self._start_tokens, self._end_token = start_and_end(start_tokens, end_token)
        self._batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._embed(self._start_tokens)

    def initialize(self, name: str | None = None) -> Any:
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: object, outputs: object, state: object, name: str | None = None) -> Any:
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(self, time: object, outputs: object, state: object, sample_ids: object, name: str | None = None) -> Any:
        finished = tf.equal(sample_ids, self._end_token)
        inputs = tf.cond(tf.reduce_all(finished), lambda: self._start_inputs, lambda: self._embed(sample_ids))
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Helper with embeddings of symbols sampled from the previous output."""

    def __init__(
        self,
        embedding: Callable[[Any], Any] | TensorLike,
        start_tokens: TensorLike,
        end_token: TensorLike,
        softmax_temperature: TensorLike | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: object, outputs: Any, state: object, name: str | None = None) -> Any:
        logits = outputs if self._temperature is None else outputs / self._temperature
        return tf.cast(tf.squeeze(tf.multinomial(logits, 1, seed=self._seed), 1), tf.int32)


class InferenceHelper(_SizedHelper):
    """Helper with inputs computed from samples."""

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: ShapeLike,
        sample_dtype: DTypeLike,
        start_inputs: TensorLike,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample, self._end, self._next_inputs = sample_fn, end_fn, next_inputs_fn
        self._shape, self._dtype = TensorShape(sample_shape), sample_dtype
        self._start_inputs = convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = tf.shape(self._start_inputs)[0]

    def initialize(self, name: str | None = None) -> Any:
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: object, outputs: object, state: object, name: str | None = None) -> Any:
        return self._sample(outputs)

    def next_inputs(self, time: object, outputs: object, state: object, sample_ids: object, name: str | None = None) -> Any:
        inputs = sample_ids if self._next_inputs is None else self._next_inputs(sample_ids)
        return self._end(sample_ids), inputs, state
