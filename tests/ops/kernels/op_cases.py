"""The recorded op cases: run one, compare it, and say how it differs.

`python -m tests.ops.kernels.op_cases [FAMILY | FILE ...] [--op OP ...] [--id TEXT] [--show N]` prints agreed / total and the
first differences, and exits 1 where a case differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, RESOURCE, STRING, VARIANT, DataType, parse_dtype
from placesim.core.errors import GraphBuildError, PlacesimError
from placesim.core.releases import CURRENT
from placesim.ops.attributes import FunctionName, Shape, TensorValue
from placesim.ops.definitions import OpDef, attr_problem
from placesim.ops.deprecation import check_not_removed
from placesim.ops.kernel_lookup import find_kernel, no_kernel_message
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.device_resources import ResourceHandle, ResourceManager, VariableResource
from placesim.ops.kernels.kernel import Kernel, KernelContext
from placesim.ops.kernels.shapes import HandleShape, ShapeContext, ShapeError
from placesim.ops.process.denormals import flushing_denormals
from placesim.ops.registry import load_registry
from placesim.runtime.shapes.shape_inference import infer_shapes, word_refusal

DATA = Path(__file__).parent.parent.parent / "data"
FAMILIES = ("math", "array", "nn", "linalg", "random", "string", "state", "image", "sparse")
TOLERANCES = {
    # numpy type: (relative, absolute)
    "float32": (1e-5, 1e-6),
    "complex64": (1e-5, 1e-6),
    "float64": (1e-9, 1e-12),
    "complex128": (1e-9, 1e-12),
    "float16": (1e-3, 1e-3),
    "bfloat16": (1e-2, 1e-2),
}
_MANY_TERMS = {"float16": (1e-2, 1e-2)}
_PRODUCTS = {"float32": (1e-5, 1e-5), "complex64": (1e-5, 1e-5), **_MANY_TERMS}
_SOLUTIONS = {"float32": (1e-4, 1e-6), "complex64": (1e-4, 1e-6)}
_LOOSER_ROWS = (
    # ops, tolerance by numpy type: where sums are long, or a solution is only as good as its matrix
    (
        "Conv Conv2D Conv3D Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilterV2 Conv3DBackpropInputV2 "
        "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput FusedPadConv2D "
        "FusedResizeAndPadConv2D MatMul SparseMatMul Einsum BatchMatMul BatchMatMulV2 BatchMatMulV3",
        _PRODUCTS,
    ),
    (
        "Cholesky CholeskyGrad LogMatrixDeterminant Lu MatrixDeterminant MatrixExponential MatrixInverse MatrixLogarithm "
        "MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Qr Svd Eig SelfAdjointEigV2 TridiagonalSolve "
        "BandedTriangularSolve",
        _SOLUTIONS,
    ),
    (
        "LRN LRNGrad GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad BlockLSTM BlockLSTMGrad BlockLSTMV2 "
        "BlockLSTMGradV2 Sum Mean Prod Cumsum Cumprod AvgPool AvgPoolGrad BiasAddGrad SegmentSum UnsortedSegmentSum AddN "
        "L2Loss EuclideanNorm FusedBatchNormV2 FusedBatchNormV3",
        _MANY_TERMS,
    ),
)
LOOSER = {op: tolerances for ops, tolerances in _LOOSER_ROWS for op in ops.split()}
QUANTIZED_EDGE = ("QuantizeV2", "Requantize", "QuantizeDownAndShrinkRange", "UniformRequantize")
"""Ops whose integers may be one step off where a value sits on a rounding edge."""

JPEG_LEVELS = {"DecodeJpeg": 3, "DecodeAndCropJpeg": 3}
"""Ops whose levels may be so many off: their inverse cosine transform is another."""

REWRITTEN = ("AccumulateNV2",)
"""Ops without a kernel of their own: a graph pass puts others in their place."""

REGISTRY = load_registry()


KERNELS = load_kernels()


def load_cases(family: str) -> Iterator[dict[str, Any]]:
    """The recorded cases of a family, or of a file of the same form."""
    yield from _load_lines(DATA / f"ops-{family}.jsonl.gz" if family in FAMILIES else Path(family))


def load_varied_cases() -> Iterator[dict[str, Any]]:
    """Cases of the corpus with other values, shapes and attrs; what they give was read off TensorFlow 2.21 without oneDNN."""
    yield from _load_lines(DATA / "varied-ops.jsonl.gz")


def load_recorded_cases() -> Iterator[dict[str, Any]]:
    """Cases of ops and inputs beyond the corpus; what they give was read off TensorFlow 2.21 without oneDNN."""
    yield from _load_lines(DATA / "recorded-ops.jsonl.gz")


def load_image_cases() -> Iterator[dict[str, Any]]:
    """Cases of image files, read off TensorFlow 2.21; of what is encoded, whose bytes may differ, those that fail."""
    yield from _load_lines(DATA / "recorded-images.jsonl.gz")


def _load_lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def decode_tensor(facts: Mapping[str, Any]) -> tuple[DataType, np.ndarray[Any, Any]]:
    """A recorded tensor -> its type and array; elements that TensorFlow did not write are NaN, or 0."""
    dtype = parse_dtype(facts["dtype"])
    flat = _flatten(facts["value"], len(facts["shape"]))
    if dtype is STRING:
        array = np.empty(len(flat), object)
        array[:] = [value.encode().decode("unicode_escape").encode("latin-1") for value in flat]
    elif dtype in (RESOURCE, VARIANT):
        array = np.array(flat, object)
    elif dtype.is_complex:
        array = np.array([complex(_number(re), _number(im)) for re, im in flat], dtype.numpy)
    elif dtype.is_integer or dtype.is_quantized or dtype is BOOL:
        array = np.array([0 if value is None else value for value in flat], dtype.numpy)
    else:
        array = np.array([_number(value) for value in flat], np.float64).astype(dtype.numpy)
    return dtype, array.reshape(facts["shape"])


def _flatten(value: Any, rank: int) -> list[Any]:
    values = [value]
    for _ in range(rank):
        values = [element for row in values for element in row]
    return values


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def decode_attr(value: Any, attr_type: str) -> Any:
    """A recorded attr -> the value as attrs hold it."""
    if attr_type.startswith("list("):
        return tuple(decode_attr(element, attr_type[5:-1]) for element in value)
    if attr_type == "type":
        return parse_dtype(value)
    if attr_type == "shape":
        return Shape(None if value is None else tuple(value))
    if attr_type == "tensor":
        return TensorValue(*decode_tensor(value))
    if attr_type == "func":
        return FunctionName(value)
    if attr_type == "string" and "\\x" in value:
        raw = value.encode().decode("unicode_escape").encode("latin-1")
        return raw.decode(errors="ignore") if raw.decode(errors="ignore").encode() == raw else raw
    return float(value) if attr_type == "float" else value


def complete_attrs(op: OpDef, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded attrs and the defaults of the rest."""
    attrs = {attr.name: attr.default for attr in op.attrs.values() if attr.has_default}
    return attrs | {name: decode_attr(value, op.attrs[name].type) for name, value in recorded.items()}


class Case:
    """One recorded case, decoded: run it, infer its shapes, and compare both with the recording."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self.recorded = recorded
        self.id: str = recorded["id"]
        self.op: str = recorded["op"]
        definition = REGISTRY.op(self.op)
        assert definition is not None
        self.definition = definition
        self.attrs = complete_attrs(definition, recorded["attrs"])
        self.names = tuple(f"i{index}" for index in range(len(recorded["inputs"])))
        self.tensors = [
            (parse_dtype(facts["dtype"]), None) if facts.get("value") is None and facts.get("var") else decode_tensor(facts)
            for facts in recorded["inputs"]
        ]
        self.node_state: dict[str, Any] = {}
        self.variables: dict[
            int, VariableResource
        ] = {}  # by input; a second run of the same session finds them as the first left them

    @property
    def kernel(self) -> Kernel:
        return KERNELS[self.op]

    def check(self) -> None:
        """Raise what TensorFlow's Python raises while it builds the node."""
        check_not_removed(self.definition, self.recorded.get("graph_def_version") or CURRENT.producer)
        problem = attr_problem(self.definition, self.attrs, "op")
        if problem:
            raise GraphBuildError(problem)
        args = [(arg, dtype) for arg in self.definition.inputs for dtype in arg.dtypes(self.attrs)]
        for index, (arg, expected) in enumerate(args):
            given = self.tensors[index][0]
            facts = self.recorded["inputs"][index]
            if expected is RESOURCE and facts.get("var"):
                continue
            is_ref = self.recorded["kind"] == "ref" and bool(facts.get("var"))
            if given is not expected or (arg.is_ref and not is_ref):
                want = f"{expected.name}_ref" if arg.is_ref else expected.name
                raise GraphBuildError(
                    f"Input {index} of node op was passed {given.name} from i{index}:0 incompatible with expected {want}."
                )

    def run(self) -> tuple[list[Any], list[Any]]:
        """Outputs, and the variables' values afterwards; raises what TensorFlow raises."""
        self.check()
        if self.op not in REWRITTEN and find_kernel(REGISTRY, self.op, "CPU", self.attrs, "op") is None:
            from placesim.core.errors import InvalidArgumentError

            raise InvalidArgumentError(no_kernel_message(REGISTRY, self.op, self.attrs, "op", ["CPU"]))
        resources = ResourceManager()
        inputs: list[Any] = []
        variables: list[VariableResource] = []
        wants_ref = [arg.is_ref for arg in self.definition.inputs for _ in arg.dtypes(self.attrs)]
        wants = [dtype for arg in self.definition.inputs for dtype in arg.dtypes(self.attrs)]
        for index, (dtype, array) in enumerate(self.tensors):
            if not self.recorded["inputs"][index].get("var"):
                inputs.append(array)
                continue
            variable = self.variables.setdefault(
                index, VariableResource(f"i{index}", dtype, None if array is None else array.copy())
            )
            variables.append(variable)
            if wants[index] is RESOURCE:
                handle = ResourceHandle("/device:CPU:0", "localhost", f"i{index}", dtype=dtype)
                if array is not None:
                    resources.lookup_or_create(handle, partial(self.variables.__getitem__, index))
                inputs.append(handle)
            elif wants_ref[index]:
                inputs.append(variable)
                if array is None and not self.definition.allows_uninitialized_input:
                    raise self._uninitialized(f"i{index}")
            elif array is None:
                raise self._uninitialized(f"i{index}")
            else:
                inputs.append(array)
        if not self.recorded["inputs"] and self.op in ("Variable", "VariableV2"):
            raise self._uninitialized("op")
        with flushing_denormals():
            if self.kernel.needs_context:
                names = tuple(  # a fed tensor reaches the node through an _Arg node
                    name if facts.get("var") else f"_arg_{name}_0_{index}"
                    for index, (name, facts) in enumerate(zip(self.names, self.recorded["inputs"], strict=True))
                )
                context = KernelContext("op", "/device:CPU:0", resources, self.node_state, input_names=names)
                outputs = self.kernel.compute(tuple(inputs), self.attrs, context)
            else:
                outputs = self.kernel.compute(tuple(inputs), self.attrs)
        results = [output.value if isinstance(output, VariableResource) else output for output in outputs]
        return results, [variable.value for variable in variables]

    @staticmethod
    def _uninitialized(name: str) -> PlacesimError:
        from placesim.core.errors import FailedPreconditionError

        return FailedPreconditionError(f"Attempting to use uninitialized value {name}")

    def infer(self, known: Sequence[Any] | None = None) -> list[Any]:
        """Static output shapes, with every input a constant or as `known` says."""
        self.check()
        shapes: list[Any] = []
        values: list[Any] = []
        handles: list[Any] = []
        dtypes: list[DataType] = []
        wants = [dtype for arg in self.definition.inputs for dtype in arg.dtypes(self.attrs)]
        for index, (dtype, array) in enumerate(self.tensors):
            facts = self.recorded["inputs"][index]
            is_constant = known is None or known[index] == "const"
            dims = tuple(facts["shape"]) if is_constant or (facts.get("var") and known is None) else known[index]  # type: ignore[index]
            dims = None if dims is None else tuple(dims)
            if wants[index] is RESOURCE and facts.get("var"):
                handles.append(HandleShape(dtype, dims))
                shapes.append(())
                values.append(None)
            else:
                handles.append(None)
                shapes.append(dims)
                values.append(array if is_constant and not facts.get("var") else None)
            dtypes.append(dtype)
        context = ShapeContext(shapes, self.attrs, values, handles)
        try:
            found = infer_shapes(self.kernel, context)
        except (ShapeError, GraphBuildError) as error:
            raise word_refusal(error, self.kernel, context, "op", self.op, self.names, dtypes) from None
        return [None if dims is None else list(dims) for dims in found]

    # --- comparison

    def differences(self) -> Iterator[str]:
        """Every way in which this case differs from its recording."""
        if self.op not in KERNELS and not self._fails_before_kernel():
            yield "no kernel"
            return
        yield from self._run_differences()
        yield from self._static_differences()

    def _fails_before_kernel(self) -> bool:
        error = self.recorded["error"] or {}
        return error.get("phase") == "build" or "No OpKernel" in error.get("message", "")

    def _run_differences(self) -> Iterator[str]:
        expected = self.recorded["error"]
        try:
            if expected and expected["phase"] == "build":  # the shape function may be what refuses
                self.infer()
            outputs, state = self.run()
        except PlacesimError as error:
            yield from _compare_error("error", error, expected)
            return
        except Exception as error:  # a kernel's own mistake
            yield f"run: {type(error).__name__}: {error} (expected {expected or 'outputs'})"
            return
        if expected:
            yield f"run: no error, expected {expected['type']}: {expected['message']}"
            return
        yield from self._compare_tensors("output", outputs, self.recorded["outputs"])
        if self.recorded.get("outputs_2") is not None:
            again, state = self.run()
            yield from self._compare_tensors("second output", again, self.recorded["outputs_2"])
        if self.recorded.get("state_after") is not None:
            yield from self._compare_tensors("state", state, self.recorded["state_after"])

    def _static_differences(self) -> Iterator[str]:
        recorded = self.recorded
        if "static_shape" in recorded:
            try:
                inferred: Any = self.infer()
            except PlacesimError as error:
                yield from _compare_error("static", error, recorded.get("static_error"))
            except Exception as error:  # a shape function's own mistake
                yield f"static: {type(error).__name__}: {error}"
            else:
                if inferred != recorded["static_shape"]:
                    yield f"static shape {inferred}, expected {recorded['static_shape']} {recorded.get('static_error', '')}"
        for known in recorded.get("static_partial") or ():
            expected = known.get("outputs")
            try:
                inferred = self.infer(known["inputs"])
            except PlacesimError as error:
                if "error" not in known:
                    yield f"partial {known['inputs']}: {error}, expected {expected}"
                continue
            except Exception as error:  # a shape function's own mistake
                yield f"partial {known['inputs']}: {type(error).__name__}: {error}, expected {expected}"
                continue
            if inferred != expected:
                yield f"partial {known['inputs']}: {inferred}, expected {expected or known.get('error')}"

    def _compare_tensors(self, what: str, actual: Sequence[Any], expected: Sequence[Any]) -> Iterator[str]:
        if len(actual) != len(expected):
            yield f"{len(actual)} {what}s, expected {len(expected)}"
            return
        compare = self.recorded.get("compare")
        for index, (mine, facts) in enumerate(zip(actual, expected, strict=True)):
            if facts is None or (compare == "first_output_only" and index):
                continue
            dtype, array = decode_tensor(facts)
            mine = np.asarray(mine)
            if dtype not in (RESOURCE, VARIANT) and mine.dtype != dtype.numpy:
                yield f"{what} {index}: dtype {mine.dtype}, expected {dtype}"
            elif mine.shape != array.shape:
                yield f"{what} {index}: shape {mine.shape}, expected {array.shape}"
            elif not self._close(mine, array, dtype, facts, compare, index):
                yield f"{what} {index}: {mine.tolist()!r:.600}, expected {array.tolist()!r:.600}"

    def _close(self, mine: Any, array: Any, dtype: DataType, facts: Any, compare: str | None, index: int) -> bool:
        if dtype in (STRING, RESOURCE, VARIANT) or dtype is BOOL:
            return bool(np.array_equal(mine, array))
        written = np.array([value is not None for value in _flatten(facts["value"], len(facts["shape"]))], bool)
        written = written.reshape(array.shape)
        if dtype.is_integer or dtype.is_quantized:
            step = 1 if self.op in QUANTIZED_EDGE else JPEG_LEVELS.get(self.op, 0)
            return bool(np.all(np.abs(mine.astype(object) - array.astype(object))[written] <= step)) if array.size else True
        rtol, atol = LOOSER.get(self.op, {}).get(mine.dtype.name, TOLERANCES[mine.dtype.name])
        wide = np.complex128 if dtype.is_complex else np.float64
        one, two = mine.astype(wide), array.astype(wide)
        if compare in ("qr", "svd", "eig"):
            one, two = _without_phase(one, two, compare, index)
        return bool(np.allclose(one[written], two[written], rtol, atol, equal_nan=True))


def _without_phase(mine: Any, array: Any, compare: str, index: int) -> tuple[Any, Any]:
    """Vectors are unique up to a sign or unit phase: turn mine to the recording's, vector by vector."""
    if index == 0 and compare in ("svd", "eig"):  # the values themselves
        return mine, array
    axis = -1 if compare == "qr" and index == 1 else -2
    inner = np.sum(np.conj(mine) * array, axis=axis, keepdims=True)
    phase = np.where(np.abs(inner) > 0, inner / np.where(inner == 0, 1, np.abs(inner)), 1)
    return mine * phase, array


def _compare_error(what: str, error: PlacesimError, expected: Mapping[str, Any] | None) -> Iterator[str]:
    if expected is None:
        yield f"{what}: {error.type_name}: {error.message}, expected none"
        return
    if error.type_name != expected["type"]:
        yield f"{what}: {error.type_name}: {error.message}, expected {expected['type']}: {expected['message']}"
    elif _comparable(error.message) != _comparable(expected["message"]):
        yield f"{what} message:\n      {error.message}\n      expected\n      {expected['message']}"


def _comparable(message: str) -> str:
    return message.split("Registered kernels:")[0]


def main() -> int:
    """Print the figures; 1 where a case differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=FAMILIES, help="families, or files of recorded cases")
    parser.add_argument("--op", action="append")
    parser.add_argument("--id", default="")
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    differing = 0
    for family in options.families:
        agreed, total, shown = 0, 0, 0
        by_op: dict[str, int] = {}
        for recorded in load_cases(family):
            if (options.op and recorded["op"] not in options.op) or options.id not in recorded["id"]:
                continue
            total += 1
            found = list(Case(recorded).differences())
            agreed += not found
            if found:
                by_op[recorded["op"]] = by_op.get(recorded["op"], 0) + 1
            if found and shown < options.show:
                shown += 1
                print(f"{recorded['id']}: inputs {recorded['inputs']!r:.300} attrs {recorded['attrs']}")
                print("".join(f"    {line}\n" for line in found), end="")
        print(f"{family}: {agreed} / {total} agreed; differing: {by_op}")
        differing += total - agreed
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
