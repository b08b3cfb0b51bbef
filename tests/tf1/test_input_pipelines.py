"""Queues of inputs, readers, records and lookup tables: names that TensorFlow 2.21 gives, and what sessions give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import placesim.tf1 as tf
from placesim.tf1 import errors


@pytest.fixture(autouse=True)
def _own_graph() -> Iterator[None]:
    tf.reset_default_graph()
    yield
    tf.reset_default_graph()


def _ops(kind: str) -> list[str]:
    return [op.name for op in tf.get_default_graph().get_operations() if op.type == kind]


def _written(path: Any, count: int = 2) -> str:
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for number in range(count):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
            example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
            writer.write(example.SerializeToString())
    return str(path)


def test_records_are_written_and_read(tmp_path: Any) -> None:
    found = [tf.train.Example.FromString(record) for record in tf.python_io.tf_record_iterator(_written(tmp_path / "a"))]
    assert [example.features.feature["x"].int64_list.value[0] for example in found] == [0, 1]
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
    with tf.python_io.TFRecordWriter(str(tmp_path / "b"), options) as writer:
        writer.write(b"abc")
    assert list(tf.io.tf_record_iterator(str(tmp_path / "b"), options)) == [b"abc"]
    with pytest.raises(errors.NotFoundError, match="No such file or directory"):
        list(tf.python_io.tf_record_iterator(str(tmp_path / "c")))


def test_readers_fill_batches_till_the_files_end(tmp_path: Any) -> None:
    names = tf.train.string_input_producer([_written(tmp_path / "a", 4)], num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(names)
    number = tf.parse_single_example(record, {"x": tf.FixedLenFeature([], tf.int64)})["x"]
    batch = tf.train.batch_join([[number]], 2)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found = [session.run(batch).tolist() for _ in range(2)]
        with pytest.raises(errors.OutOfRangeError):
            session.run(batch)
        coordinator.request_stop()
        coordinator.join(threads)
    assert found == [[0, 1], [2, 3]]


def test_sets_that_are_joined_enter_by_ops_of_their_own() -> None:
    x = tf.placeholder(tf.float32, [3])
    tf.train.batch_join([[x], [x]], 4)
    assert _ops("QueueEnqueueV2") == ["batch_join/fifo_queue_enqueue", "batch_join/fifo_queue_enqueue_1"]


def test_what_is_not_kept_does_not_enter() -> None:
    keeps = tf.placeholder(tf.bool, [])
    tf.train.maybe_batch([tf.placeholder(tf.float32, [3])], keeps, 4)
    assert _ops("QueueEnqueueV2") == ["batch/cond/fifo_queue_enqueue"]
    tf.train.maybe_batch([tf.placeholder(tf.float32, [3])], tf.placeholder(tf.bool, [3]), 4, enqueue_many=True)
    assert _ops("DynamicPartition") == ["batch_1/DynamicPartition"]


def test_priorities_stand_first() -> None:
    queue = tf.PriorityQueue(10, tf.string, shapes=[])
    enter = queue.enqueue_many([[3, 1, 2], ["c", "a", "b"]])
    leave = queue.dequeue_many(3)
    assert queue.dtypes == [tf.int64, tf.string]
    with tf.Session() as session:
        session.run(enter)
        assert session.run(leave)[1].tolist() == [b"a", b"b", b"c"]


def test_tables_have_defaults(tmp_path: Any) -> None:
    (tmp_path / "words").write_text("x\ny\n")
    file = tf.lookup.TextFileInitializer(
        str(tmp_path / "words"), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    tables = [
        tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["x"], tf.constant([7], tf.int64)), -1),
        tf.lookup.StaticHashTable(file, -1),
        tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(["x"], tf.constant([0], tf.int64)), 1),
    ]
    found = [table.lookup(tf.constant(["x", "y"])) for table in tables]
    assert found[0].name == "hash_table_Lookup/LookupTableFindV2:0"
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        assert [value.tolist() for value in session.run(found)] == [[7, -1], [0, 1], [0, 1]]
    told = "Dtype of argument `keys` must be <dtype: 'string'>, received: <dtype: 'int32'>"
    for table in (tables[0], tables[2]):
        with pytest.raises(TypeError, match=told):
            table.lookup(tf.constant([1]))
        with pytest.raises(AttributeError, match=r"no attribute .dtype."):
            table.lookup(["x"])


def test_tables_change() -> None:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    enter = table.insert(tf.constant(["a"]), tf.constant([5], tf.int64))
    leave = table.remove(tf.constant(["a"]))
    found = table.lookup(tf.constant(["a", "b"]))
    with tf.Session() as session:
        values = []
        for op in (enter, leave):
            session.run(op)
            values.append(session.run(found).tolist())
    assert values == [[5, -1], [-1, -1]]


def test_python_functions_get_arrays_with_numpy() -> None:
    found = tf.py_function(lambda x: x.numpy() * 2, [tf.constant([1.0, 2.0])], tf.float32)
    assert found.op.type == "EagerPyFunc"
    with tf.Session() as session:
        assert session.run(found).tolist() == [2.0, 4.0]
