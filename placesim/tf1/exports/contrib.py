"""`tf.contrib`, without recurrent networks and tables."""

from __future__ import annotations


def _under(prefixes: str, names: str) -> str:
    """Map the same names in several modules of `tf.contrib`."""
    return " ".join(f"contrib.{prefix}.{name}" for prefix in prefixes.split() for name in names.split())


_LAYERS = "layers slim"
_FRAMEWORK = "framework slim"

_READERS = "load_checkpoint load_variable list_variables"
_LOSSES = (
    "absolute_difference compute_weighted_loss cosine_distance hinge_loss log_loss mean_pairwise_squared_error "
    "mean_squared_error sigmoid_cross_entropy softmax_cross_entropy sparse_softmax_cross_entropy add_loss"
)
_GRADIENTS = "create_train_op multiply_gradients clip_gradient_norms add_gradients_summaries"
_STREAMING = (
    "accuracy auc false_negatives false_positives mean_absolute_error mean_cosine_distance mean_iou mean_relative_error "
    "mean_squared_error precision precision_at_thresholds recall recall_at_k recall_at_thresholds root_mean_squared_error "
    "sensitivity_at_specificity specificity_at_sensitivity true_negatives true_positives sparse_average_precision_at_k "
    "sparse_precision_at_k mean mean_tensor percentage_less"
)
_METRICS = " ".join(
    ["accuracy confusion_matrix aggregate_metrics aggregate_metric_map", *(f"streaming_{name}" for name in _STREAMING.split())]
)

ROWS = {
    "contrib.losses": _under("losses slim.losses", _LOSSES),
    "losses": _under("losses slim.losses", "get_losses get_regularization_losses get_total_loss"),
    "contrib.metrics": _under("metrics slim.metrics", _METRICS),
    "contrib.embeddings": _under(_LAYERS, "embedding_lookup_unique embed_sequence bow_encoder"),
    "contrib.summaries": " ".join(
        [
            _under(
                _LAYERS, "summarize_tensor summarize_activation summarize_tensors summarize_collection summarize_activations"
            ),
            _under("slim layers.summaries", "summarize_variables summarize_weights summarize_biases"),
        ]
    ),
    "contrib.optimizing": _under(_LAYERS, "optimize_loss OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES"),
    "contrib.training": _under("training", _GRADIENTS + " clip_gradient_norms_fn"),
    "contrib.graph_editor": _under("graph_editor", "get_backward_walk_ops get_forward_walk_ops"),
    "training.evaluation": _under("training", "evaluate_once StopAfterNEvalsHook get_or_create_eval_step"),
    "contrib.learning": _under("slim.learning", _GRADIENTS + " train train_step"),
    "contrib.clustering": _under(
        "factorization",
        "KMeans CLUSTERS_VAR_NAME COSINE_DISTANCE KMC2_INIT KMEANS_PLUS_PLUS_INIT RANDOM_INIT SQUARED_EUCLIDEAN_DISTANCE",
    ),
    "contrib.hparams": _under("training", "HParams"),
    "contrib.framework": " ".join(
        [
            _under(
                _FRAMEWORK,
                "assign_from_values assign_from_values_fn assign_from_checkpoint assign_from_checkpoint_fn",
            ),
            _under(
                "framework",
                "smart_cond smart_constant_value assert_scalar assert_scalar_int reduce_sum_n get_graph_from_inputs "
                "get_placeholders get_name_scope",
            ),
        ]
    ),
    "internals.decorators": " ".join(
        [_under(_FRAMEWORK, "deprecated deprecated_arg_values"), "contrib.framework.deprecated_args"]
    ),
    "examples.mnist": (
        _under("learn.datasets.mnist", "DataSet read_data_sets load_mnist dense_to_one_hot extract_images extract_labels")
    ),
    "saving.readers": _under("framework", _READERS),
    "math.sorting": _under("framework", "sort argsort"),
    "contrib.arg_scopes": _under(
        _FRAMEWORK, "arg_scope add_arg_scope has_arg_scope arg_scoped_arguments current_arg_scope arg_scope_func_key"
    ),
    "contrib.variables": _under(
        _FRAMEWORK,
        "variable model_variable local_variable global_variable add_model_variable get_variables get_model_variables "
        "get_local_variables get_trainable_variables get_variables_by_suffix get_variables_by_name get_unique_variable "
        "get_variable_full_name get_variables_to_restore filter_variables assert_or_get_global_step VariableDeviceChooser",
    ),
    "optimizers.steps": _under(_FRAMEWORK, "get_global_step create_global_step get_or_create_global_step assert_global_step"),
    "contrib.initializers": _under(
        "layers slim layers.initializers slim.initializers",
        "variance_scaling_initializer xavier_initializer xavier_initializer_conv2d",
    ),
    "contrib.regularizers": _under(
        "layers slim layers.regularizers slim.regularizers",
        "l1_regularizer l2_regularizer l1_l2_regularizer sum_regularizer apply_regularization",
    ),
    "contrib.kernels": _under(
        _LAYERS,
        "convolution conv1d conv2d conv3d convolution1d convolution2d convolution3d conv2d_transpose conv3d_transpose "
        "convolution2d_transpose convolution3d_transpose separable_conv2d separable_convolution2d conv2d_in_plane "
        "convolution2d_in_plane fully_connected relu relu6 elu linear",
    ),
    "contrib.shaping": _under(
        _LAYERS,
        "max_pool2d avg_pool2d max_pool3d avg_pool3d dropout flatten one_hot_encoding maxout softmax unit_norm repeat stack",
    ),
    "contrib.batch_norm": _under(_LAYERS, "batch_norm"),
    "contrib.normalization": _under(_LAYERS, "layer_norm instance_norm group_norm bias_add"),
    "contrib.outputs": _under(
        "layers.utils slim.utils",
        "get_variable_collections append_tensor_alias get_tensor_aliases gather_tensors_aliases collect_named_outputs "
        "convert_collection_to_dict constant_value static_cond smart_cond two_element_tuple n_positive_integers "
        "last_dimension channel_dimension",
    ),
    "contrib.nets.classic": " ".join(
        [
            _under("slim.nets.vgg", "vgg_a vgg_16 vgg_d vgg_19 vgg_e vgg_arg_scope"),
            _under("slim.nets.alexnet", "alexnet_v2 alexnet_v2_arg_scope"),
            _under("slim.nets.overfeat", "overfeat overfeat_arg_scope"),
        ]
    ),
    "contrib.nets.residual": " ".join(
        [
            *(
                _under(
                    f"slim.nets.resnet_v{version}",
                    f"resnet_v{version} resnet_v{version}_block resnet_v{version}_50 resnet_v{version}_101 "
                    f"resnet_v{version}_152 resnet_v{version}_200 resnet_arg_scope bottleneck=bottleneck_v{version}",
                )
                for version in (1, 2)
            ),
            _under("slim.nets.resnet_utils", "Block subsample conv2d_same stack_blocks_dense resnet_arg_scope"),
        ]
    ),
}
