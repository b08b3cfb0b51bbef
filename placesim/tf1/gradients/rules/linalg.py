"""Gradients of products, factorisations and solutions of matrices."""

from __future__ import annotations

import string
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction, text_of
from placesim.tf1.gradients.rules.reductions import kept_dims_shape
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")

# --- products ----------------------------------------------------------------------------------------------------------------


def _matmul(op: Operation, grad: Tensor) -> list[Any]:
    turned_a, turned_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    # of real tensors, `conj` makes no node
    a, b = tf.conj(op.inputs[0]), tf.conj(op.inputs[1])
    multiply = gen("MatMul")
    if not turned_a:
        a_grad = multiply(grad, b, transpose_b=not turned_b, grad_a=True)
    else:
        a_grad = multiply(b, grad, transpose_a=turned_b, transpose_b=True, grad_a=True)
    if not turned_b:
        b_grad = multiply(a, grad, transpose_a=not turned_a, grad_b=True)
    else:
        b_grad = multiply(grad, a, transpose_a=True, transpose_b=turned_a, grad_b=True)
    return [a_grad, b_grad]


def _batch_products(op: Operation, grad: Tensor, marked: bool) -> tuple[Any, Any]:
    """Gradients of a product's factors, before broadcasting.  `marked`: the ops have the attr `grad_x` or `grad_y`."""
    x, y = op.inputs
    turned_x, turned_y = op.get_attr("adj_x"), op.get_attr("adj_y")
    of_x = {"grad_x": True} if marked else {}
    of_y = {"grad_y": True} if marked else {}

    def multiply(a: Tensor, b: Tensor, **attrs: object) -> Any:
        return gen("BatchMatMulV2")(a, b, name="MatMul", **attrs)

    if not turned_x:
        x_grad = multiply(grad, y, adj_y=not turned_y, **of_x)
    else:
        x_grad = multiply(y, grad, adj_x=turned_y, adj_y=True, **of_x)
    if not turned_y:
        y_grad = multiply(x, grad, adj_x=not turned_x, **of_y)
    else:
        y_grad = multiply(grad, x, adj_x=True, adj_y=turned_x, **of_y)
    return x_grad, y_grad


def _batch_matmul_broadcast(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    return _reduced_batches(x, y, *_batch_products(op, grad, marked=True))


def _reduced_batches(x: Tensor, y: Tensor, x_grad: Tensor, y_grad: Tensor, trusts_shapes: bool = True) -> list[Any]:
    """The gradients summed over the batch dimensions that were broadcast; static shapes may show that none was."""
    of_x, of_y = x.shape, y.shape
    if trusts_shapes and of_x.rank is not None and of_y.rank is not None:
        batch_x, batch_y = of_x[:-2], of_y[:-2]
        if batch_x.is_fully_defined() and batch_y.is_fully_defined() and batch_x == batch_y:
            return [x_grad, y_grad]
    x_shape, y_shape = tf.shape(x), tf.shape(y)
    x_axes, y_axes = gen("BroadcastGradientArgs")(x_shape[:-2], y_shape[:-2])
    x_grad = tf.reshape(tf.reduce_sum(x_grad, x_axes), x_shape)
    return [x_grad, tf.reshape(tf.reduce_sum(y_grad, y_axes), y_shape)]


def _sparse_matmul(op: Operation, grad: Tensor) -> list[Any]:
    a, b = op.inputs
    turned_a, turned_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    is_sparse = {a.name: op.get_attr("a_is_sparse"), b.name: op.get_attr("b_is_sparse"), grad.name: grad.op.type == "ReluGrad"}

    def multiply(x: Tensor, y: Tensor, dtype: DTypeLike, turned_x: bool = False, turned_y: bool = False) -> Any:
        x_sparse, y_sparse = is_sparse[x.name], is_sparse[y.name]
        if turned_y:
            y = tf.transpose(y)
        product = tf.matmul(x, y, transpose_a=turned_x, a_is_sparse=x_sparse, b_is_sparse=y_sparse)
        return product if product.dtype == dtype else tf.cast(product, dtype)

    of_a, of_b = a.dtype, b.dtype
    if not turned_a and not turned_b:
        a_grad = multiply(grad, b, of_a, turned_y=True)
        return [a_grad, multiply(a, grad, of_b, turned_x=True)]
    if not turned_a:
        a_grad = multiply(grad, b, of_a)
        return [a_grad, multiply(grad, a, of_b, turned_x=True)]
    if not turned_b:
        a_grad = multiply(b, grad, of_a, turned_y=True)
        return [a_grad, multiply(a, grad, of_b)]
    a_grad = multiply(b, grad, of_a, turned_x=True, turned_y=True)
    return [a_grad, multiply(grad, a, of_b, turned_x=True, turned_y=True)]


# --- Einstein sums -----------------------------------------------------------------------------------------------------------


def _einsum(op: Operation, grad: Tensor) -> list[Any]:
    equation = text_of(op.get_attr("equation"))
    # one letter for all broadcast dimensions, so that labels can be counted
    ellipsis = next(label for label in string.ascii_letters if label not in equation)
    left, output = equation.replace("...", ellipsis).split("->")
    sums = _EinsteinSums(ellipsis)
    if len(op.inputs) == 1:
        shape = tf.shape(op.inputs[0])
        reduced = [label for label in dict.fromkeys(left) if label not in output + ellipsis]
        if not reduced:
            return [sums.make([grad], output, left)]
        return [sums.spread(grad, output, left, shape, reduced)]
    x_labels, y_labels = left.split(",")
    x, y = op.inputs
    # If one operand has broadcast dimensions, the other is treated as having them too.
    if ellipsis in output:
        x_labels += ellipsis if ellipsis not in x_labels else ""
        y_labels += ellipsis if ellipsis not in y_labels else ""
    x_shape, y_shape = tf.shape(x), tf.shape(y)
    x, y = tf.conj(x), tf.conj(y)
    x_grad = sums.of_operand(grad, y, x_shape, x_labels, y_labels, output)
    y_grad = sums.of_operand(grad, x, y_shape, y_labels, x_labels, output)
    if ellipsis not in output:
        return [x_grad, y_grad]
    (x_begin, x_end), (y_begin, y_end) = (sums.broadcast_dims(labels) for labels in (x_labels, y_labels))
    of_x, of_y = x.shape, y.shape
    if of_x.rank is not None and of_y.rank is not None:
        same = of_x[x_begin:x_end], of_y[y_begin:y_end]
        if same[0].is_fully_defined() and same[1].is_fully_defined() and same[0] == same[1]:
            return [x_grad, y_grad]
    x_axes, y_axes = gen("BroadcastGradientArgs")(x_shape[x_begin:x_end], y_shape[y_begin:y_end])
    x_grad = tf.reshape(tf.reduce_sum(x_grad, x_begin + x_axes), x_shape)
    return [x_grad, tf.reshape(tf.reduce_sum(y_grad, y_begin + y_axes), y_shape)]


class _EinsteinSums:
    """Sums over labels, with one letter for `...`."""

    def __init__(self, ellipsis: str) -> None:
        self.ellipsis = ellipsis

    def make(self, operands: list[Any], given: str, wanted: str) -> Any:
        """The sum of an equation."""
        return gen("Einsum")(operands, f"{given}->{wanted}".replace(self.ellipsis, "..."))

    def of_operand(self, grad: Tensor, other: object, shape: ShapeLike, labels: str, other_labels: str, output: str) -> Any:
        """Gradient of one of two operands."""
        reduced = [label for label in dict.fromkeys(labels) if label not in output + other_labels + self.ellipsis]
        left = "".join(label for label in labels if label not in reduced)
        summed = self.make([grad, other], f"{output},{other_labels}", left)
        return summed if not reduced else self.spread(summed, left, labels, shape, reduced)

    def spread(self, grad: Tensor, output: str, labels: str, shape: Any, reduced: list[str]) -> Any:
        """Gradient of an operand whose labels `reduced` were summed: it is broadcast along them."""
        axes = [self._axis(labels, label) for label in reduced]
        dims = tf.stack([shape[axis] for axis in axes])
        repeated = len(set(labels)) + len(set(output)) < len(labels) + len(output)
        if not repeated and "".join(label for label in labels if label not in reduced) == output:
            return tf.broadcast_to(tf.reshape(grad, kept_dims_shape(shape, convert_to_tensor(axes))), shape)
        wide_shape = tf.concat([dims, tf.shape(grad)], 0)
        narrow_shape = tf.concat([tf.ones(len(reduced), dtype="int32"), tf.shape(grad)], 0)
        wide = tf.broadcast_to(tf.reshape(grad, narrow_shape), wide_shape)
        return self.make([wide], "".join(reduced) + output, labels)

    def _axis(self, labels: str, label: str) -> int:
        """Dimension of a label, negative after the broadcast dimensions."""
        axis = labels.index(label)
        broadcast = labels.find(self.ellipsis)
        return axis if broadcast < 0 or axis < broadcast else axis - len(labels)

    def broadcast_dims(self, labels: str) -> tuple[int, int | None]:
        """Start and end of the broadcast dimensions."""
        begin = labels.index(self.ellipsis)
        remaining = len(labels) - (begin + 1)
        return begin, -remaining if remaining > 0 else None


# --- inverses, determinants, solutions ---------------------------------------------------------------------------------------


def _inverse(op: Operation, grad: Tensor) -> Any:
    inverse, adjoint = op.outputs[0], op.get_attr("adjoint")
    inner = tf.matmul(grad, inverse, adjoint_a=adjoint, adjoint_b=not adjoint)
    return -tf.matmul(inverse, inner, adjoint_a=not adjoint)


def _determinant(op: Operation, grad: Tensor) -> Any:
    matrix, value = op.inputs[0], op.outputs[0]
    inverse = tf.linalg.inv(matrix, adjoint=True)
    factors = tf.reshape(grad * value, tf.concat([tf.shape(value), [1, 1]], 0))
    return factors * inverse


def _log_determinant(op: Operation, _: object, grad: Tensor) -> Any:
    matrix, value = op.inputs[0], op.outputs[1]
    inverse = tf.linalg.inv(matrix, adjoint=True)
    factors = tf.reshape(grad, tf.concat([tf.shape(value), [1, 1]], 0))
    return factors * inverse


def _outer(rhs_grad: Tensor, solution: object, adjoint: bool) -> Any:
    if adjoint:
        return -tf.matmul(solution, rhs_grad, adjoint_b=True)
    return -tf.matmul(rhs_grad, solution, adjoint_b=True)


def _solution(op: Operation, grad: Tensor) -> list[Any]:
    adjoint = op.get_attr("adjoint")
    rhs_grad = tf.linalg.solve(op.inputs[0], grad, adjoint=not adjoint)
    return [_outer(rhs_grad, op.outputs[0], adjoint), rhs_grad]


def _triangular_solution(op: Operation, grad: Tensor) -> list[Any]:
    matrix, rhs = op.inputs
    adjoint, lower = op.get_attr("adjoint"), op.get_attr("lower")
    rhs_grad = tf.linalg.triangular_solve(matrix, grad, lower=lower, adjoint=not adjoint)
    matrix_grad = _outer(rhs_grad, op.outputs[0], adjoint)
    matrix_grad = tf.matrix_band_part(matrix_grad, -1, 0) if lower else tf.matrix_band_part(matrix_grad, 0, -1)
    is_known = matrix.shape.is_fully_defined() and rhs.shape.is_fully_defined()
    return _reduced_batches(matrix, rhs, matrix_grad, rhs_grad, is_known)


# --- factorisations ----------------------------------------------------------------------------------------------------------


def _halved_diagonal(matrix: Tensor) -> Any:
    return tf.matrix_set_diag(matrix, 0.5 * tf.matrix_diag_part(matrix))


def _cholesky(op: Operation, grad: Tensor) -> Any:
    factor = op.outputs[0]
    rows = tf.shape(factor)[-1]
    batch = tf.shape(factor)[:-2]
    inverse = tf.linalg.triangular_solve(factor, tf.linalg.eye(rows, batch_shape=batch, dtype=factor.dtype))
    middle = tf.matmul(factor, grad, adjoint_a=True)
    middle = tf.matrix_band_part(_halved_diagonal(middle), -1, 0)
    result = tf.matmul(tf.matmul(inverse, middle, adjoint_a=True), inverse)
    result += tf.linalg.adjoint(result)
    return result * 0.5


def _qr(op: Any, q_grad: Tensor, r_grad: Tensor) -> Any:
    q, r = op.outputs
    if r.shape.rank is None or None in r.shape.as_list()[-2:]:
        raise NotImplementedError(f"QrGrad not implemented with dynamic shapes. Received r.shape: {r.shape}")
    rows, columns = r.shape.as_list()[-2:]
    if rows > columns and q.shape.as_list()[-2] == q.shape.as_list()[-1]:
        refused = "QrGrad not implemented when nrows > ncols and full_matrices is true"
        raise NotImplementedError(f"{refused}. Received r.shape={r.shape} with nrows={rows}and ncols={columns}.")

    def behind(x: Tensor, triangle: object) -> Any:
        """Product of x and the adjoint of the inverse of the triangular matrix."""
        return tf.linalg.adjoint(tf.linalg.triangular_solve(triangle, tf.linalg.adjoint(x), lower=False, adjoint=False))

    def square_or_tall(q: object, r: object, q_grad: Tensor, r_grad: Tensor) -> Any:
        of_q = tf.matmul(q, q_grad, adjoint_a=True)
        skew_q = of_q - tf.linalg.adjoint(of_q)
        of_r = tf.matmul(r, r_grad, adjoint_b=True)
        skew_r = of_r - tf.linalg.adjoint(of_r)
        lower = tf.matrix_band_part(skew_q + skew_r, -1, 0)
        first = tf.matmul(q, r_grad + behind(lower, r))
        found = first + behind(q_grad - tf.matmul(q, of_q), r)
        if not found.dtype.is_complex:
            return found
        # The diagonal of r is real, so the imaginary part of its gradient belongs to q.
        rest = of_r - tf.linalg.adjoint(of_q)
        diagonal = tf.linalg.set_diag(tf.zeros_like(rest), tf.linalg.diag_part(rest))
        imaginary = diagonal - tf.cast(tf.real(diagonal), found.dtype)
        return found + behind(tf.matmul(q, tf.linalg.adjoint(imaginary)), r)

    if rows >= columns:
        return square_or_tall(q, r, q_grad, r_grad)
    matrix = op.inputs[0]
    rest = matrix[..., :, rows:]
    square = r[..., :, :rows]
    rest_grad = r_grad[..., :, rows:]
    square_grad = r_grad[..., :, :rows]
    of_rest = tf.matmul(q, rest_grad)
    of_q = q_grad + tf.matmul(rest, rest_grad, adjoint_b=True)
    return tf.concat([square_or_tall(q, square, of_q, square_grad), of_rest], axis=-1)


def _safe_reciprocal(x: Tensor) -> Any:
    # equal eigenvalues give 0 instead of infinity
    return x * tf.reciprocal(x * x + 1e-20)


def _self_adjoint_eig(op: Operation, values_grad: Tensor, vectors_grad: Tensor) -> Any:
    values, with_vectors = op.outputs[0], op.get_attr("compute_v")
    with control_dependencies([values_grad, vectors_grad]):
        if with_vectors:
            vectors = op.outputs[1]
            differences = tf.expand_dims(values, -2) - tf.expand_dims(values, -1)
            inverse = tf.matrix_set_diag(_safe_reciprocal(differences), tf.zeros_like(values))
            middle = tf.matrix_diag(values_grad) + inverse * tf.matmul(vectors, vectors_grad, adjoint_a=True)
            result = tf.matmul(vectors, tf.matmul(middle, vectors, adjoint_b=True))
        else:
            _, vectors = tf.linalg.eigh(op.inputs[0])
            result = tf.matmul(vectors, tf.matmul(tf.matrix_diag(values_grad), vectors, adjoint_b=True))
        result = tf.matrix_band_part(result + tf.linalg.adjoint(result), -1, 0)
        # only the lower triangle of the matrix is read, so its gradient is lower too
        return _halved_diagonal(result)


def _svd(op: Any, s_grad: Tensor, u_grad: Tensor, v_grad: Tensor) -> Any:
    matrix, s = op.inputs[0], op.outputs[0]
    with_vectors, full = op.get_attr("compute_uv"), op.get_attr("full_matrices")
    s_grad_matrix = tf.matrix_diag(s_grad)
    if not with_vectors:
        _, u, v = tf.linalg.svd(matrix, compute_uv=True)
        return tf.matmul(u, tf.matmul(s_grad_matrix, v, adjoint_b=True))
    u, v = op.outputs[1], op.outputs[2]
    sizes = None if matrix.shape.rank is None else matrix.shape.as_list()[-2:]
    if sizes is None or None in sizes:
        raise NotImplementedError("SVD gradient has not been implemented for input with unknown inner matrix shape.")
    rows, columns = sizes
    with control_dependencies([s_grad, u_grad, v_grad]):
        tall = rows > columns
        if full and abs(rows - columns) > 1:
            raise NotImplementedError(
                "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True. Received: "
                f"m={columns} and n={rows} from op input={matrix} with shape={matrix.shape}."
            )
        s_matrix = tf.matrix_diag(s)
        squares = tf.square(s)
        tf.shape(s)  # TensorFlow makes this node, and reads it nowhere
        differences = tf.expand_dims(squares, -2) - tf.expand_dims(squares, -1)
        f = tf.matrix_set_diag(_safe_reciprocal(differences), tf.zeros_like(s))
        s_inverse = tf.matrix_diag(_safe_reciprocal(s))
        count = min(rows, columns)
        # A tall matrix is treated as its adjoint, which is wide.
        if tall:
            u, v, u_grad, v_grad = v, u, v_grad, u_grad
        v1, v1_grad = v[..., :, :count], v_grad[..., :, :count]
        of_u = tf.matmul(u, u_grad, adjoint_a=True)
        of_v = tf.matmul(v1, v1_grad, adjoint_a=True)
        f_u, f_v = f * of_u, f * of_v
        first = s_grad_matrix + tf.matmul(f_u + tf.linalg.adjoint(f_u), s_matrix)
        middle = first + tf.matmul(s_matrix, f_v + tf.linalg.adjoint(f_v))
        result = tf.matmul(u, tf.matmul(middle, v1, adjoint_b=True))
        if rows != columns:
            turned = tf.matrix_transpose(v1_grad)
            rest = turned - tf.matmul(tf.matmul(turned, v1), v1, adjoint_b=True)
            if full and abs(rows - columns) == 1:
                v2, v2_grad = v[..., :, count : count + 1], v_grad[..., :, count : count + 1]
                inner = tf.matmul(v1, v2_grad, adjoint_a=True)
                rest -= tf.matmul(inner, v2, adjoint_b=True)
            result += tf.matmul(tf.matmul(u, s_inverse), rest)
        return tf.matrix_transpose(result) if tall else result


def _least_squares(op: Operation, grad: Tensor) -> list[Any]:
    if not op.get_attr("fast"):
        raise ValueError("Gradient not defined for fast=False")
    raise NotImplementedError("the gradient of MatrixSolveLs is not there; tf.matrix_solve_ls by default makes other ops")


GRADIENTS: dict[str, GradientFunction] = {
    "BatchMatMul": lambda op, grad: list(_batch_products(op, grad, marked=False)),
    "BatchMatMulV2": _batch_matmul_broadcast,
    "BatchMatMulV3": _batch_matmul_broadcast,
    "Cholesky": _cholesky,
    "Einsum": _einsum,
    "LogMatrixDeterminant": _log_determinant,
    "MatMul": _matmul,
    "MatrixDeterminant": _determinant,
    "MatrixInverse": _inverse,
    "MatrixSolve": _solution,
    "MatrixTriangularSolve": _triangular_solution,
    "Qr": _qr,
    "SelfAdjointEigV2": _self_adjoint_eig,
    "SparseMatMul": _sparse_matmul,
    "Svd": _svd,
    "MatrixSolveLs": _least_squares,
}
