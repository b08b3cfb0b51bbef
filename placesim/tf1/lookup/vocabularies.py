"""`tf.contrib.lookup`: tables from words to numbers, and from numbers to words."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.lookup.initializers import KeyValueTensorInitializer, TextFileIndex, TextFileInitializer
from placesim.tf1.lookup.tables import StaticHashTable, StaticVocabularyTable
from placesim.tf1.types import dtypes


def index_table_from_file(
    vocabulary_file: TensorLike | None = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: object = None,
    key_dtype: object = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """A table from the lines of a file to their numbers.  Raises ValueError without a file."""
    if vocabulary_file is None:
        raise ValueError("`vocabulary_file` must be specified.")
    with tf.name_scope(name, "string_to_index"):
        wanted = dtypes.as_dtype(key_dtype)
        with tf.name_scope(None, "hash_table"):
            initializer = TextFileInitializer(
                vocabulary_file,
                dtypes.int64 if wanted.is_integer else wanted,
                key_column_index,
                dtypes.int64,
                value_column_index,
                vocab_size,
                delimiter,
                "table_init",
            )
            table = StaticHashTable(initializer, default_value)
        return IdTableWithHashBuckets(table, num_oov_buckets, wanted) if num_oov_buckets else table


def index_table_from_tensor(
    vocabulary_list: object,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: object = None,
    dtype: DTypeLike = dtypes.string,
    name: str | None = None,
) -> Any:
    """A table from the elements of a list to their indices.  Raises ValueError without a list."""
    if vocabulary_list is None:
        raise ValueError("`vocabulary_list` must be specified.")
    with tf.name_scope(name, "string_to_index"):
        keys = tf.convert_to_tensor(vocabulary_list)
        count = tf.size(keys)
        values = tf.cast(tf.range(count), dtypes.int64)
        with tf.name_scope(None, "hash_table"):
            keys = tf.cast(keys, dtypes.int64) if keys.dtype.is_integer else keys
            table = StaticHashTable(KeyValueTensorInitializer(keys, values, name="table_init"), default_value)
        return IdTableWithHashBuckets(table, num_oov_buckets, dtypes.as_dtype(dtype)) if num_oov_buckets else table


class IdTableWithHashBuckets(StaticVocabularyTable):
    """The numbers of a table, and further numbers for the hashes of other words."""

    def __init__(self, table: StaticHashTable, num_oov_buckets: int, key_dtype: dtypes.DType) -> None:
        self._table, self._buckets, self._key_dtype = table, num_oov_buckets, key_dtype

    @property
    def name(self) -> str:
        return self._table.name.rpartition("/")[2]


def index_to_string_table_from_file(
    vocabulary_file: TensorLike,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> Any:
    """A table from line numbers to the lines of a file."""
    with tf.name_scope(name, "index_to_string"):
        initializer = TextFileInitializer(
            vocabulary_file,
            dtypes.int64,
            key_column_index,
            dtypes.string,
            value_column_index,
            vocab_size,
            delimiter,
            "table_init",
        )
        return StaticHashTable(initializer, default_value)


def index_to_string_table_from_tensor(vocabulary_list: object, default_value: str = "UNK", name: str | None = None) -> Any:
    """A table from indices to the elements of a list."""
    with tf.name_scope(name, "index_to_string"):
        values = tf.convert_to_tensor(vocabulary_list, dtypes.string)
        keys = tf.cast(tf.range(tf.size(values)), dtypes.int64)
        return StaticHashTable(
            KeyValueTensorInitializer(keys, values, dtypes.int64, dtypes.string, "table_init"), default_value
        )
