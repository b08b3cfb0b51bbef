"""Graphs, names, devices, types, shapes and conversion."""

ROWS = {
    "graphs.graph": "Graph get_default_graph reset_default_graph",
    "graphs.tensor": "Tensor Operation",
    "internals.framework": "autograph.experimental.do_not_convert",
    "ops.conversion": "convert_to_tensor register_tensor_conversion_function constant",
    "types.dtypes": (
        "DType as_dtype dtypes.DType dtypes.as_dtype float16 half bfloat16 float32 float64 double int8 int16 int32 int64 uint8 "
        "uint16 uint32 uint64 complex64 complex128 bool=bool_ string resource variant qint8 quint8 qint16 quint16 qint32 "
        "dtypes.float16 dtypes.half dtypes.bfloat16 dtypes.float32 dtypes.float64 dtypes.double dtypes.int8 dtypes.int16 "
        "dtypes.int32 dtypes.int64 dtypes.uint8 dtypes.uint16 dtypes.uint32 dtypes.uint64 dtypes.complex64 dtypes.complex128 "
        "dtypes.bool=bool_ dtypes.string dtypes.resource dtypes.variant dtypes.qint8 dtypes.quint8 dtypes.qint16 "
        "dtypes.quint16 dtypes.qint32"
    ),
    "types.dimensions": "Dimension compat.dimension_value=dimension_value dimension_value",
    "types.shapes": "TensorShape compat.dimension_at_index=dimension_at_index dimension_at_index",
    "types.device_spec": "DeviceSpec",
    "graphs.default_graph_scopes": (
        "name_scope device colocate_with init_scope control_dependencies container add_to_collection "
        "add_to_collections get_collection get_collection_ref op_scope"
    ),
    "graphs.graph_keys": "GraphKeys",
    "random.seeds": "set_random_seed random.set_random_seed=set_random_seed get_seed random.get_seed=get_seed",
    "graphs.placeholders": "placeholder placeholder_with_default sparse_placeholder",
    "graphs.grouping": "group tuple=gated",
    "sparse.values": "IndexedSlices IndexedSlicesValue SparseTensor SparseTensorValue sparse.SparseTensor=SparseTensor",
    "ops.constant_values": "get_static_value=constant_value contrib.util.constant_value=constant_value",
    "release": (
        "__version__ version.VERSION version.GRAPH_DEF_VERSION version.GIT_VERSION VERSION GIT_VERSION GRAPH_DEF_VERSION "
        "GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER disable_v2_behavior enable_v2_behavior "
        "disable_eager_execution enable_eager_execution executing_eagerly disable_v2_tensorshape enable_v2_tensorshape "
        "disable_tensor_equality enable_tensor_equality"
    ),
}
