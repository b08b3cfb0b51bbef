"""`tf.contrib`, as far as it is a thin layer over the rest."""

from __future__ import annotations


def _under(prefixes: str, names: str) -> str:
    """The same names in several modules of `tf.contrib`."""
    return " ".join(f"contrib.{prefix}.{name}" for prefix in prefixes.split() for name in names.split())


_LAYERS = "layers slim"
_FRAMEWORK = "framework slim"

ROWS = {
    "contrib.arg_scopes": _under(
        _FRAMEWORK, "arg_scope add_arg_scope has_arg_scope arg_scoped_arguments current_arg_scope arg_scope_func_key"
    ),
    "contrib.variables": _under(
        _FRAMEWORK,
        "variable model_variable local_variable global_variable add_model_variable get_variables get_model_variables "
        "get_local_variables get_trainable_variables get_variables_by_suffix get_variables_by_name get_unique_variable "
        "get_variable_full_name get_variables_to_restore filter_variables assert_or_get_global_step VariableDeviceChooser",
    ),
    "optimizers.steps": _under(
        _FRAMEWORK, "get_global_step create_global_step get_or_create_global_step assert_global_step"
    ),
    "contrib.initializers": _under(
        _LAYERS, "variance_scaling_initializer xavier_initializer xavier_initializer_conv2d"
    ),
    "contrib.regularizers": _under(
        _LAYERS, "l1_regularizer l2_regularizer l1_l2_regularizer sum_regularizer apply_regularization"
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
}
