"""Arithmetic, reductions, arrays and random numbers."""

_BESSEL = "i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e y0 y1"
_SPECIAL = (
    *(f"math.bessel_{name}" for name in ["i0", "i0e", "i1", "i1e"]),
    *(f"math.special.bessel_{name}" for name in _BESSEL.split()),
    *(f"math.special.{name}" for name in ["dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence"]),
)

ROWS = {
    "math.elementwise": (
        "abs math.abs sign math.sign accumulate_n math.accumulate_n add math.add add_n math.add_n argmax math.argmax argmin "
        "math.argmin "
        "cumprod math.cumprod cumsum math.cumsum math.cumulative_logsumexp div div_no_nan math.divide_no_nan divide "
        "math.divide floordiv math.floordiv log_sigmoid math.log_sigmoid logical_xor math.logical_xor math.multiply_no_nan pow "
        "math.pow round math.round scalar_mul math.scalar_mul sigmoid math.sigmoid nn.sigmoid truediv math.truediv math.xdivy "
        "math.xlog1py angle math.angle"
    ),
    "math.casting": (
        "cast dtypes.cast saturate_cast dtypes.saturate_cast to_bfloat16 to_complex128 to_complex64 to_double to_float "
        "to_int32 to_int64 complex dtypes.complex conj math.conj imag math.imag real math.real"
    ),
    "math.products": "matmul linalg.matmul linalg.matvec",
    "math.reductions": (
        "count_nonzero math.count_nonzero reduce_all math.reduce_all reduce_any math.reduce_any math.reduce_euclidean_norm "
        "reduce_logsumexp math.reduce_logsumexp reduce_max math.reduce_max reduce_mean math.reduce_mean reduce_min "
        "math.reduce_min reduce_prod math.reduce_prod math.reduce_std reduce_sum math.reduce_sum math.reduce_variance"
    ),
    "array.creation": (
        "zeros ones zeros_like ones_like fill range one_hot eye linalg.eye=eye meshgrid linalg.diag=matrix_diag "
        "matrix_diag linalg.diag_part=matrix_diag_part matrix_diag_part linalg.set_diag=matrix_set_diag matrix_set_diag "
        "compat.v2.ones_like=ones_like_v2"
    ),
    "array.shaping": (
        "shape size rank broadcast_static_shape broadcast_dynamic_shape reshape manip.reshape=reshape expand_dims "
        "squeeze transpose matrix_transpose linalg.matrix_transpose linalg.transpose=matrix_transpose concat stack "
        "parallel_stack unstack split pad identity"
    ),
    "array.parts": (
        "slice gather gather_nd manip.gather_nd=gather_nd batch_gather boolean_mask where where_v2 reverse_sequence "
        "sequence_mask setdiff1d repeat"
    ),
    "array.slicing": "strided_slice",
    "math.special_functions": (
        "lbeta math.lbeta math.erfinv math.erfcinv math.ndtri math.reciprocal_no_nan math.sobol_sample math.approx_max_k "
        "math.approx_min_k nn.approx_max_k nn.approx_min_k " + " ".join(_SPECIAL)
    ),
}
OPS = """
acos=Acos math.acos=Acos ceil=Ceil math.ceil=Ceil equal=Equal math.equal=Equal exp=Exp math.exp=Exp floor=Floor math.floor=Floor
multiply=Mul math.multiply=Mul not_equal=NotEqual math.not_equal=NotEqual rsqrt=Rsqrt math.rsqrt=Rsqrt
sqrt=Sqrt math.sqrt=Sqrt subtract=Sub math.subtract=Sub math.softplus=Softplus nn.softplus=Softplus stop_gradient=StopGradient
guarantee_const=GuaranteeConst diag_part=DiagPart linalg.tensor_diag_part=DiagPart tensor_scatter_nd_update=TensorScatterUpdate
tensor_scatter_update=TensorScatterUpdate roll=Roll manip.roll=Roll fingerprint=Fingerprint unique=Unique
unique_with_counts=UniqueWithCounts shape_n=ShapeN
"""
