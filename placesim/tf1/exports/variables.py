"""Variables, variable scopes and initializers."""

_INITIALIZERS = (
    ("constant", "Constant"),
    ("glorot_normal", "GlorotNormal"),
    ("glorot_uniform", "GlorotUniform"),
    ("identity", "Identity"),
    ("ones", "Ones"),
    ("orthogonal", "Orthogonal"),
    ("random_normal", "RandomNormal"),
    ("random_uniform", "RandomUniform"),
    ("truncated_normal", "TruncatedNormal"),
    ("uniform_unit_scaling", "UniformUnitScaling"),
    ("variance_scaling", "VarianceScaling"),
    ("zeros", "Zeros"),
)
_KERAS = """
Initializer Constant constant=Constant Identity identity=Identity Ones ones=Ones Zeros zeros=Zeros Orthogonal
orthogonal=Orthogonal RandomNormal=KerasRandomNormal random_normal=KerasRandomNormal normal=KerasRandomNormal
RandomUniform=KerasRandomUniform random_uniform=KerasRandomUniform uniform=KerasRandomUniform
TruncatedNormal=KerasTruncatedNormal truncated_normal=KerasTruncatedNormal VarianceScaling glorot_normal=GlorotNormal
glorot_uniform=GlorotUniform he_normal=HeNormal he_uniform=HeUniform lecun_normal=LecunNormal lecun_uniform=LecunUniform
get=keras_get
"""
_SCALED = "he_normal he_uniform lecun_normal lecun_uniform"

ROWS = {
    "variables.variable": ("Variable compat.v2.Variable=VariableV2 VariableSynchronization VariableAggregation"),
    "variables.creating": (
        "variable_creator_scope enable_resource_variables disable_resource_variables resource_variables_enabled"
    ),
    "variables.scopes": ("variable_scope variable_op_scope VariableScope get_variable_scope AUTO_REUSE"),
    "variables.getting": "get_variable get_local_variable no_regularizer",
    "variables.templates": "make_template",
    "variables.modules": "Module",
    "variables.partitioned": (
        "fixed_size_partitioner variable_axis_size_partitioner min_max_variable_partitioner create_partitioned_variables"
    ),
    "variables.functions": (
        "assign assign_add assign_sub scatter_update scatter_add scatter_sub scatter_mul scatter_div scatter_min scatter_max "
        "scatter_nd_update scatter_nd_add scatter_nd_sub batch_scatter_update count_up_to is_variable_initialized "
        "global_variables local_variables model_variables trainable_variables moving_average_variables all_variables "
        "variables_initializer global_variables_initializer local_variables_initializer initialize_variables "
        "initialize_all_variables initialize_local_variables assert_variables_initialized report_uninitialized_variables "
        "initializers.variables=variables_initializer initializers.global_variables=global_variables_initializer "
        "initializers.local_variables=local_variables_initializer"
    ),
    "variables.initializers": " ".join(
        [
            *(f"{name}_initializer={kind}" for name, kind in _INITIALIZERS if name != "identity"),
            *(f"initializers.{name}={kind}" for name, kind in _INITIALIZERS),
            *(f"initializers.{name}" for name in _SCALED.split()),
            *(f"keras.initializers.{item}" for item in _KERAS.split()),
        ]
    ),
}
