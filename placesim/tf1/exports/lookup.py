"""Tables from keys to values."""

ROWS = {
    "lookup.initializers": (
        "lookup.KeyValueTensorInitializer lookup.TextFileInitializer lookup.TextFileIndex "
        "contrib.lookup.KeyValueTensorInitializer contrib.lookup.TextFileInitializer contrib.lookup.TextFileIndex"
    ),
    "lookup.tables": (
        "lookup.StaticHashTable lookup.StaticVocabularyTable lookup.experimental.MutableHashTable "
        "lookup.experimental.DenseHashTable contrib.lookup.HashTable contrib.lookup.MutableHashTable"
    ),
    "lookup.vocabularies": (
        "contrib.lookup.index_table_from_file contrib.lookup.index_table_from_tensor "
        "contrib.lookup.index_to_string_table_from_file "
        "contrib.lookup.index_to_string_table_from_tensor"
    ),
}
