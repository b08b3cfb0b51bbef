"""`tf.contrib.seq2seq`: attention mechanisms, and a cell wrapper with attention."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.layers.core import Dense
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.rnn.cells import CellLike, RNNCell, check_cell
from placesim.tf1.types import nest

tf = namespace("")


class AttentionMechanism:
    """Attention to a memory: scores how well a query matches each position of the memory."""

    def __init__(
        self,
        query_layer: Any,
        memory: TensorLike,
        probability_fn: Callable[[Any], Any] | None,
        memory_sequence_length: TensorLike | None,
        memory_layer: Any,
        score_mask_value: float | None,
    ) -> None:
        self.query_layer, self.memory_layer = query_layer, memory_layer
        self._probability_fn = probability_fn or tf.nn.softmax
        self._score_mask_value = -math.inf if score_mask_value is None else score_mask_value
        self._lengths = memory_sequence_length
        with name_scope("AttentionMechanismInit", None):
            self.values = self._masked(convert_to_tensor(memory, name="memory"))
            self.keys = memory_layer(self.values) if memory_layer is not None else self.values
            batch, size = self.keys.shape.as_list()[:2]
            self.batch_size = tf.shape(self.keys)[0] if batch is None else batch
            self.alignments_size = tf.shape(self.keys)[1] if size is None else size

    def _masked(self, memory: Any) -> Any:
        """The memory with zeros after the end of each sequence."""
        if self._lengths is None:
            return memory
        self._lengths = convert_to_tensor(self._lengths, name="memory_sequence_length")
        mask = tf.sequence_mask(self._lengths, maxlen=tf.shape(memory)[1], dtype=memory.dtype)
        for _ in range(memory.shape.rank - 2):
            mask = tf.expand_dims(mask, -1)
        return memory * mask

    def _masked_score(self, score: object) -> Any:
        if self._lengths is None:
            return score
        mask = tf.sequence_mask(self._lengths, maxlen=tf.shape(score)[1])
        return tf.where(mask, score, self._score_mask_value * tf.ones_like(score))

    @property
    def state_size(self) -> Any:
        return self.alignments_size

    def initial_alignments(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Alignments before the first step."""
        return tf.zeros(tf.stack([batch_size, self.alignments_size]), dtype)

    def initial_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """Initial state, carried from step to step."""
        return self.initial_alignments(batch_size, dtype)

    def _score(self, query: object) -> Any:
        raise NotImplementedError

    def __call__(self, query: object, state: object) -> tuple[Any, Any]:
        """Alignments (the weight of each position in the memory), and the next state, which is the same tensor."""
        alignments = self._probability_fn(self._masked_score(self._score(query)))
        return alignments, alignments


class BahdanauAttention(AttentionMechanism):
    """Additive attention: scores from a layer over query and memory."""

    def __init__(
        self,
        num_units: int,
        memory: TensorLike,
        memory_sequence_length: TensorLike | None = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: float | None = None,
        dtype: DTypeLike | None = None,
        custom_key_value_fn: object = None,
        name: str = "BahdanauAttention",
    ) -> None:
        dtype = tf.float32 if dtype is None else dtype
        query_layer = Dense(num_units, name="query_layer", use_bias=False, dtype=dtype, _scope="query_layer")
        memory_layer = Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype, _scope="memory_layer")
        super().__init__(query_layer, memory, probability_fn, memory_sequence_length, memory_layer, score_mask_value)
        self._num_units, self._normalize = num_units, normalize

    def _score(self, query: Any) -> Any:
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            of_query = tf.expand_dims(self.query_layer(query), 1)
            vector = tf.get_variable("attention_v", [self._num_units], dtype=query.dtype)
            gates = self.keys + of_query
            if self._normalize:
                start = tf.constant_initializer(math.sqrt(1.0 / self._num_units))
                scale = tf.get_variable("attention_g", shape=(), dtype=query.dtype, initializer=start)
                zeros = tf.zeros_initializer()
                gates += tf.get_variable("attention_b", [self._num_units], dtype=query.dtype, initializer=zeros)
                vector = scale * vector * tf.rsqrt(tf.reduce_sum(tf.square(vector)))
            return tf.reduce_sum(vector * tf.tanh(gates), [2])


class LuongAttention(AttentionMechanism):
    """Multiplicative attention: scores are products of query and memory."""

    def __init__(
        self,
        num_units: int,
        memory: TensorLike,
        memory_sequence_length: TensorLike | None = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: float | None = None,
        dtype: DTypeLike | None = None,
        custom_key_value_fn: object = None,
        name: str = "LuongAttention",
    ) -> None:
        dtype = tf.float32 if dtype is None else dtype
        memory_layer = Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype, _scope="memory_layer")
        super().__init__(None, memory, probability_fn, memory_sequence_length, memory_layer, score_mask_value)
        self._scale = scale

    def _score(self, query: Any) -> Any:
        depth, units = query.shape.as_list()[-1], self.keys.shape.as_list()[-1]
        if depth != units:
            raise ValueError(
                f"Incompatible or unknown inner dimensions between query and keys. Query ({query}) has units: {depth}. Keys "
                f"({self.keys}) have units: {units}. Perhaps you need to set num_units to the keys' dimension ({units})?"
            )
        with tf.variable_scope(None, "luong_attention", [query]):
            score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), self.keys, transpose_b=True), [1])
            if self._scale:
                one = tf.ones_initializer()
                score = tf.get_variable("attention_g", dtype=query.dtype, initializer=one, shape=()) * score
            return score


def hardmax(logits: TensorLike, name: str | None = None) -> Any:
    """One at the largest logit, zero elsewhere."""
    with name_scope(name, "Hardmax", [logits]):
        logits = convert_to_tensor(logits, name="logits")
        known = logits.shape.as_list()[-1] if logits.shape.rank is not None else None
        depth = tf.shape(logits)[tf.rank(logits) - 1] if known is None else known
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


class AttentionWrapperState(
    namedtuple(
        "AttentionWrapperState",
        ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"),
    )
):
    """The state of an `AttentionWrapper`."""

    def clone(self, **kwargs: object) -> AttentionWrapperState:
        """Copy with some parts replaced by values of the same shapes."""
        for name, value in kwargs.items():
            nest.assert_same_structure(getattr(self, name), value)
            for old, new in zip(nest.flatten(getattr(self, name)), nest.flatten(value), strict=True):
                if hasattr(old, "set_shape") and hasattr(new, "set_shape"):
                    new.set_shape(old.shape)
        return self._replace(**kwargs)


class AttentionWrapper(RNNCell):
    """A cell with attention to one or more memories, which also reads the attention of the previous step."""

    def __init__(
        self,
        cell: CellLike,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: object = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: object = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        check_cell("cell", cell)
        self._is_one = not isinstance(attention_mechanism, list | tuple)
        self._mechanisms = (attention_mechanism,) if self._is_one else tuple(attention_mechanism)
        for mechanism in self._mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                wanted = (
                    "be an AttentionMechanism or list of multiple AttentionMechanism instances"
                    if self._is_one
                    else "contain only instances of AttentionMechanism"
                )
                raise TypeError(f"attention_mechanism must {wanted}, saw type: {type(mechanism).__name__}")
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise TypeError(f"cell_input_fn must be callable, saw type: {type(cell_input_fn).__name__}")
        self._cell, self._keeps_history, self._output_attention = cell, alignment_history, output_attention
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._initial_cell_state = initial_cell_state
        self._layers = self._attention_layers(attention_layer_size, attention_layer)
        memories = [mechanism.values.shape.as_list()[-1] for mechanism in self._mechanisms]
        sizes = memories if self._layers is None else [layer.units for layer in self._layers]
        self._attention_size = sum(sizes)

    def _attention_layers(self, sizes: Any, given: object) -> list[Any] | None:
        if sizes is not None and given is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        layers = given if given is None or isinstance(given, list | tuple) else [given]
        if sizes is not None:
            sizes = sizes if isinstance(sizes, list | tuple) else [sizes]
            layers = [Dense(size, name="attention_layer", use_bias=False) for size in sizes]
        if layers is not None and len(layers) != len(self._mechanisms):
            raise ValueError(
                "If provided, attention_layer_size must contain exactly one integer per attention_mechanism, saw: "
                f"{len(layers)} vs {len(self._mechanisms)}"
            )
        return None if layers is None else list(layers)

    def _one_or_all(self, values: Any) -> Any:
        values = tuple(values)
        return values[0] if self._is_one else values

    @property
    def output_size(self) -> Any:
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        sizes = self._one_or_all(mechanism.alignments_size for mechanism in self._mechanisms)
        states = self._one_or_all(mechanism.state_size for mechanism in self._mechanisms)
        history = self._one_or_all(() for _ in self._mechanisms)
        none = tf.TensorShape([])
        return AttentionWrapperState(self._cell.state_size, self._attention_size, none, sizes, history, states)

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        with name_scope(type(self).__name__ + "ZeroState", None, [batch_size]):
            state = self._initial_cell_state
            if state is None:
                state = self._cell.zero_state(batch_size, dtype)
            alignments = [mechanism.initial_alignments(batch_size, dtype) for mechanism in self._mechanisms]
            known = None if hasattr(batch_size, "op") else batch_size
            attention = tf.zeros(tf.stack([batch_size, self._attention_size]), dtype)
            attention.set_shape([known, self._attention_size])
            return AttentionWrapperState(
                cell_state=nest.map_structure(lambda part: tf.identity(part, name="checked_cell_state"), state),
                attention=attention,
                time=tf.zeros([], dtype=tf.int32),
                alignments=self._one_or_all(alignments),
                alignment_history=self._one_or_all(self._history(part, dtype) for part in alignments),
                attention_state=self._one_or_all(mechanism.initial_state(batch_size, dtype) for mechanism in self._mechanisms),
            )

    def _history(self, alignments: Tensor, dtype: DTypeLike) -> Any:
        if not self._keeps_history:
            return ()
        return TensorArray(dtype, size=0, dynamic_size=True, element_shape=alignments.shape)

    def call(self, inputs: Any, state: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"Expected state to be instance of AttentionWrapperState. Received type {type(state)} instead.")
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        before = (state.attention_state,) if self._is_one else state.attention_state
        history = (state.alignment_history,) if self._is_one else state.alignment_history
        attentions, alignments, states, histories = [], [], [], []
        for i, mechanism in enumerate(self._mechanisms):
            found, following = mechanism(output, state=before[i])
            context = tf.squeeze(tf.matmul(tf.expand_dims(found, 1), mechanism.values), [1])
            if self._layers is not None:
                context = self._layers[i](tf.concat([output, context], 1))
            attentions.append(context)
            alignments.append(found)
            states.append(following)
            histories.append(history[i].write(state.time, found) if self._keeps_history else ())
        attention = tf.concat(attentions, 1)
        after = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._one_or_all(alignments),
            alignment_history=self._one_or_all(histories),
            attention_state=self._one_or_all(states),
        )
        return attention if self._output_attention else output, after
