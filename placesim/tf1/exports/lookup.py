"""Tables from keys to values."""

from __future__ import annotations

ROWS = {
    "lookup.tables": (
        "lookup.KeyValueTensorInitializer lookup.TextFileInitializer lookup.TextFileIndex lookup.StaticHashTable "
        "lookup.StaticVocabularyTable lookup.experimental.MutableHashTable lookup.experimental.DenseHashTable "
        "contrib.lookup.HashTable contrib.lookup.KeyValueTensorInitializer contrib.lookup.TextFileInitializer "
        "contrib.lookup.TextFileIndex contrib.lookup.MutableHashTable contrib.lookup.index_table_from_file "
        "contrib.lookup.index_table_from_tensor contrib.lookup.index_to_string_table_from_file "
        "contrib.lookup.index_to_string_table_from_tensor"
    ),
}
