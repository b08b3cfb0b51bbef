"""`tf.data`: the functions and names that TensorFlow 2.21 makes, and the elements that its sessions give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1 import errors
from placesim.tf1.graphs.tensor import restart_ids


@pytest.fixture(autouse=True)
def _own_graph() -> Iterator[None]:
    restart_ids()
    tf.reset_default_graph()
    yield
    tf.reset_default_graph()


def _elements(dataset: Any) -> list[Any]:
    """All elements, as a session gives them."""
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    found: list[Any] = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(errors.OutOfRangeError, match="End of sequence"):
            _run_for_ever(session, following, found)
    return found


def _run_for_ever(session: Any, following: Any, found: list[Any]) -> None:
    while True:
        found.append(session.run(following))


def _listed(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in _elements(dataset)]


def test_one_shot_functions_have_tensorflows_names() -> None:
    """A hash of the body is in the name, which the number of the mapped function goes into."""
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32))
    tf.data.make_one_shot_iterator(dataset.map(lambda x: x * 2.0).batch(2).repeat(2))
    assert sorted(tf.get_default_graph().functions) == ["__inference_Dataset_map_lambda_8", "_make_dataset_OTX1oEjJHw4"]


def test_one_shot_iterators_copy_what_stands_twice() -> None:
    dataset = tf.data.Dataset.range(4).map(lambda x: x * 2)
    tf.data.make_one_shot_iterator(tf.data.Dataset.zip((dataset, dataset)))
    function = next(f for name, f in tf.get_default_graph().functions.items() if name.startswith("_make_dataset"))
    names = [node.name for node in function.nodes if node.op == "RangeDataset"]
    assert names == ["RangeDataset", "RangeDataset_1"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            lambda: tf.placeholder(tf.float32, [2]),
            "Cannot capture a placeholder (name:Placeholder, type:Placeholder) by value.",
        ),
        (lambda: tf.Variable([1.0]), "Cannot capture a stateful node (name:Variable, type:VariableV2) by value.: A likely"),
    ],
)
def test_one_shot_iterators_need_constants(source: Any, message: str) -> None:
    dataset = tf.data.Dataset.from_tensor_slices(source())
    with pytest.raises(ValueError, match=re.escape(message)):
        tf.data.make_one_shot_iterator(dataset)


def test_elements_are_structures() -> None:
    dataset = tf.data.Dataset.from_tensor_slices((np.arange(3, dtype=np.float32), {"b": [1, 2, 3], "a": ["x", "y", "z"]}))
    assert dataset.output_types == (tf.float32, {"b": tf.int32, "a": tf.string})
    assert [op.name for op in tf.get_default_graph().get_operations()][1:3] == [
        "normalize_element/component_1",
        "normalize_element/component_2",
    ]
    assert _elements(dataset)[1] == (1.0, {"b": 2, "a": b"y"})


def test_seeded_shuffles_are_tensorflows() -> None:
    """Of TensorFlow 2.21: two epochs, whose order differs."""
    dataset = tf.data.Dataset.range(10).shuffle(4, seed=1).repeat(2)
    assert _listed(dataset) == [0, 4, 5, 1, 2, 7, 9, 8, 6, 3, 2, 1, 3, 4, 6, 8, 7, 9, 5, 0]


def test_iterators_of_a_structure_take_other_datasets() -> None:
    first, second = tf.data.Dataset.range(2), tf.data.Dataset.range(5, 7)
    iterator = tf.data.Iterator.from_structure(first.output_types, first.output_shapes)
    begins = [iterator.make_initializer(dataset) for dataset in (first, second)]
    assert [op.name for op in begins] == ["make_initializer", "make_initializer_1"]
    following = iterator.get_next()
    with tf.Session() as session:
        found = []
        for begin in begins:
            session.run(begin)
            found.append(session.run(following))
    assert found == [0, 5]


def test_handles_choose_the_iterator() -> None:
    handle = tf.placeholder(tf.string, [])
    datasets = [tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)]
    following = tf.data.Iterator.from_string_handle(handle, tf.int64, tf.TensorShape([])).get_next()
    with tf.Session() as session:
        handles = [session.run(tf.data.make_one_shot_iterator(each).string_handle()) for each in datasets]
        found = [session.run(following, {handle: handles[i]}) for i in (0, 1, 0, 1)]
    assert found == [0, 10, 1, 11]


def test_generators_are_asked_one_by_one() -> None:
    def numbers(limit: int) -> Iterator[tuple[int, list[int]]]:
        for i in range(limit):
            yield i, [i] * i

    dataset = tf.data.Dataset.from_generator(numbers, (tf.int32, tf.int64), ([], [None]), args=(3,))
    assert [(int(a), b.tolist()) for a, b in _elements(dataset)] == [(0, []), (1, [1]), (2, [2, 2])]


def test_texts_of_a_padded_batch_are_texts() -> None:
    dataset = tf.data.Dataset.from_generator(lambda: iter(["a", "bc"]), tf.string, [])
    (batch,) = _elements(dataset.padded_batch(2, []))
    assert batch.tolist() == [b"a", b"bc"]


def test_windows_of_one_key() -> None:
    dataset = tf.data.Dataset.range(7)
    grouped = dataset.apply(tf.data.experimental.group_by_window(lambda x: x % 2, lambda key, d: d.batch(3), 3))
    assert _listed(grouped) == [[0, 2, 4], [1, 3, 5], [6]]


def test_buckets_of_one_length() -> None:
    """Of TensorFlow 2.21."""
    dataset = tf.data.Dataset.range(5).map(lambda x: tf.range(x))
    bucketed = dataset.apply(tf.data.experimental.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3], [2, 2]))
    assert _listed(bucketed) == [[[0], [0]], [[0, 1, 2, 0], [0, 1, 2, 3]], [[0, 1]]]


def test_buckets_padded_to_the_greatest_length_below_their_boundary() -> None:
    lengths = tf.data.Dataset.from_tensor_slices([1, 2, 5])
    buckets = tf.data.experimental.bucket_by_sequence_length(tf.size, [4], [2, 2], pad_to_bucket_boundary=True)
    batches = lengths.map(tf.range).apply(buckets)
    following = tf.data.make_one_shot_iterator(batches).get_next()
    with tf.Session() as session:
        assert session.run(following).tolist() == [[0, 0, 0], [0, 1, 0]]
        with pytest.raises(errors.InvalidArgumentError, match="elements must have length"):
            session.run(following)


def test_sparse_elements() -> None:
    sparse = tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
    (found,) = _elements(tf.data.Dataset.from_tensor_slices(sparse).batch(2))
    assert found.indices.tolist() == [[0, 1], [1, 2]]
    assert found.dense_shape.tolist() == [2, 3]


def test_states_are_folded() -> None:
    total = tf.data.Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x)
    scanned = tf.data.Dataset.range(4).apply(tf.data.experimental.scan(np.int64(0), lambda s, x: (s + x, s * x)))
    assert _listed(scanned) == [0, 0, 2, 9]
    with tf.Session() as session:
        assert session.run(total) == 10


def test_options_are_a_message() -> None:
    """Its bytes are TensorFlow 2.21's."""
    options = tf.data.Options()
    options.experimental_deterministic = False
    options.experimental_optimization.noop_elimination = True
    dataset = tf.data.Dataset.range(2).with_options(options)
    attrs = dataset._variant_tensor.op.node.attrs
    assert attrs["serialized_options"].encode() == b"\x08\x00\x12\x00\x1a\x02p\x01*\x00:\x00b\x00"
    with pytest.raises(TypeError, match="must be of type <class 'bool'>, got: 3"):
        options.experimental_deterministic = 3
    with pytest.raises(AttributeError, match="Cannot set the property foo on Options"):
        options.foo = 1


def test_padding_must_fit() -> None:
    dataset = tf.data.Dataset.from_tensors([1, 2])
    with pytest.raises(ValueError, match=r"The padded shape \(1,\) is not compatible with the shape \(2,\)"):
        dataset.padded_batch(2, [1])
    assert _listed(dataset.padded_batch(2, [4], padding_values=7)) == [[[1, 2, 7, 7]]]


def test_files_are_read_one_after_the_other(tmp_path: Any) -> None:
    names = []
    for i in range(2):
        path = tmp_path / f"{i}.txt"
        path.write_text(f"a{i}\nb{i}\n")
        names.append(str(path))
    assert _listed(tf.data.TextLineDataset(names)) == [b"a0", b"b0", b"a1", b"b1"]
    listed = tf.data.Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
    assert _listed(listed) == [name.encode() for name in names]
    (tmp_path / "0.bin").write_bytes(b"hAAABBBf")
    records = tf.data.FixedLengthRecordDataset(str(tmp_path / "0.bin"), 3, 1, 1)
    assert _listed(records) == [b"AAA", b"BBB"]


def test_draws_from_datasets_are_seeded() -> None:
    datasets = [tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)]
    drawn = tf.data.experimental.sample_from_datasets(datasets, [0.5, 0.5], seed=1)
    assert _listed(drawn) == [10, 0, 1, 2, 11, 12]
    chosen = tf.data.experimental.choose_from_datasets(datasets, tf.data.Dataset.range(2).repeat(3))
    assert _listed(chosen) == [0, 10, 1, 11, 2, 12]


def test_exceptions_of_functions_are_told_with_their_lines() -> None:
    """In TensorFlow's words."""

    def broken(x: Any) -> Any:
        raise KeyError("abc")

    with pytest.raises(KeyError) as caught:
        tf.data.Dataset.range(3).map(broken)
    line = broken.__code__.co_firstlineno + 1
    lines = f'in user code:\n\n    File "{__file__}", line {line}, in broken  *\n        raise KeyError("abc")\n\n'
    assert str(caught.value) == f"{lines}    KeyError: 'abc'\n"
    with pytest.raises(TypeError, match=r"inner_factory.<locals>.<lambda>\(\) takes 0 positional arguments but 1 was given"):
        tf.data.Dataset.range(3).map(lambda: 1)
    with pytest.raises(AttributeError) as missing:
        tf.data.Dataset.range(3).map(lambda x: x.foo)
    assert "in None  *\n        lambda x: x.foo\n" in str(missing.value)


def test_none_in_an_element_is_no_tensor() -> None:
    """Specs and values as TensorFlow 2.21 tells them."""
    dataset = tf.data.Dataset.range(4).map(lambda x: {"a": x, "b": None}).batch(2)
    assert dataset.output_types == {"a": tf.int64, "b": tf.NoneTensorSpec()}
    taken = dataset.make_one_shot_iterator().get_next()
    assert taken["b"] is None
    with tf.Session() as session:
        assert session.run(taken["a"]).tolist() == [0, 1]
    with pytest.raises(ValueError, match="Attr 'output_types' of 'MapDataset' Op passed list of length 0 less than minimum 1"):
        tf.data.Dataset.range(3).map(lambda x: None)
