"""Feature columns."""

_MAKING = (
    "numeric_column bucketized_column categorical_column_with_hash_bucket categorical_column_with_vocabulary_file "
    "categorical_column_with_vocabulary_list categorical_column_with_identity weighted_categorical_column crossed_column "
    "indicator_column embedding_column shared_embedding_columns make_parse_example_spec"
)

ROWS = {
    "feature_columns.making": " ".join(f"feature_column.{name}" for name in _MAKING.split()),
    "feature_columns.models": "feature_column.input_layer feature_column.linear_model",
    "feature_columns.dense_features": "keras.layers.DenseFeatures",
}
