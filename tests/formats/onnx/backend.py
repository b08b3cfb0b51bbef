"""ONNX's own backend tests through placesim's reader and numpy runtime: how many agree, at ONNX's tolerances.

    python -m tests.formats.onnx.backend [--kind node] [--filter TEXT] [--verbose] [--every N]

The tests come with the `onnx` package.  Those of training are left out.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import placesim
from placesim.core.errors import PlacesimError

KINDS = ("simple", "pytorch-operator", "pytorch-converted", "node")
LEFT_OUT = ("ai.onnx.preview.training", "ai.onnx.training")
"""Domains whose tests are not asked for."""
TEST_SECONDS = 30
ALL = slice(None)


class Case(NamedTuple):
    """A test: a model's bytes, and the inputs and outputs of its data sets."""

    name: str
    model: Any
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


def cases(kind: str, text: str = "", part: slice = ALL) -> Iterator[Case]:
    """The tests of a kind whose names hold a text, by name; only those of `part` are read."""
    import onnx
    from onnx.backend.test.loader import load_model_tests
    from onnx.reference.ops import op_pool_common

    # ONNX reads the source of each test again for its own manual
    unread = patch("onnx.backend.test.case.base.process_snippet", return_value=("", ""))
    with warnings.catch_warnings(), unread, patch.object(op_pool_common, "pool", partial(_pool, op_pool_common.pool)):
        warnings.simplefilter("ignore")
        found = sorted(load_model_tests(kind=kind), key=lambda case: case.name)
    for case in [case for case in found if text in case.name][part]:
        model = case.model if case.model is not None else onnx.load(Path(case.model_dir or "") / "model.onnx")
        if any(entry.domain in LEFT_OUT for entry in model.opset_import):
            continue
        data = case.data_sets if case.data_sets is not None else list(_data_sets(Path(case.model_dir or ""), model))
        yield Case(case.name, model, data, case.rtol, case.atol)


def _pool(one_by_one: Callable[..., Any], padded: Any, *given: Any, p: int = 1, **options: Any) -> Any:
    """ONNX's `pool`, which takes windows one by one; here all at once, where there is neither padding nor dilation."""
    if options or len(given) > 5:
        return one_by_one(padded, *given, p=p, **options)
    _, kernel, strides, _, kind = given
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), tuple(range(2, padded.ndim)))
    windows = windows[(slice(None), slice(None), *(slice(None, None, step) for step in strides))]
    values = windows.reshape(*windows.shape[: padded.ndim], -1)
    if kind == "LPPOOL":
        return (np.abs(values) ** p).sum(axis=-1) ** (1.0 / p)
    return values.max(axis=-1) if kind == "MAX" else values.mean(axis=-1)


def _data_sets(directory: Path, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    for folder in sorted(directory.glob("test_data_set_*")):
        yield _tensors(folder, "input", model.graph.input), _tensors(folder, "output", model.graph.output)


def _tensors(folder: Path, what: str, infos: Any) -> list[Any]:
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [_read((folder / f"{what}_{index}.pb").read_bytes(), infos[index].type) for index in range(count)]


def _read(data: bytes, kind: Any) -> Any:
    from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper

    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(OptionalProto.FromString(data))
    return numpy_helper.to_array(TensorProto.FromString(data))


def _normal(item: Any) -> Any:
    """Tests of ONNX hold TensorProtos among arrays."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item


def run_model(model: Any, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a ModelProto for its inputs in their order.  Raises PlacesimError."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    names = [
        given.name for given in model.graph.input if given.name not in initializers or len(inputs) == len(model.graph.input)
    ]
    kinds = {given.name: given.type for given in model.graph.input}
    feeds: dict[str, Any] = {}
    for name, item in zip(names, inputs, strict=False):
        feeds |= _fed(name, item, kinds[name])
    report = placesim.run(io.BytesIO(model.SerializeToString()), feed=feeds, timeout=TEST_SECONDS)
    return [_output(report.results, wanted) for wanted in model.graph.output]


def _fed(name: str, item: Any, kind: Any) -> dict[str, Any]:
    """A sequence is fed along a first axis if its members have one shape, else member by member."""
    if item is None:
        return {name: None} if kind.HasField("optional_type") else {}
    if not isinstance(item, list):
        return {name: _normal(item)}
    members = [_normal(member) for member in item]
    if len({member.shape for member in members}) == 1:
        return {name: np.stack(members)}
    return {f"{name}[{index}]": member for index, member in enumerate(members)} or {name: None}


def _output(results: Any, wanted: Any) -> Any:
    """An output of a step: a sequence as a list of its members."""
    kind = wanted.type.optional_type.elem_type if wanted.type.HasField("optional_type") else wanted.type
    if not kind.HasField("sequence_type"):
        return _decoded(results[wanted.name])
    if wanted.name in results:
        return list(results[wanted.name])
    return [result.value for result in results if str(result.name).startswith(f"{wanted.name}[")]


def _decoded(array: Any) -> Any:
    """TensorFlow's strings are bytes, ONNX's are texts."""
    if array.dtype != object:
        return array
    texts = [item.decode() if isinstance(item, bytes) else item for item in array.flat]
    return np.array([*texts, None], object)[:-1].reshape(array.shape)


def failure(case: Case) -> str:
    """Why a test does not agree; empty where it does."""
    from onnx.backend.test.runner import Runner

    for inputs, expected in case.data:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = run_model(case.model, inputs)
                Runner.assert_similar_outputs(list(map(_normal, expected)), found, case.rtol, case.atol)
        except PlacesimError as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
        except AssertionError as error:
            return "differs: " + " ".join(str(error).split())[:200]
        except Exception as error:  # the judge goes on
            return f"{type(error).__name__}: {error}"[:200]
    return ""


def main() -> None:
    """Prints agreed / total for each kind, and what did not agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--filter", default="", help="part of the tests' names")
    parser.add_argument("--verbose", action="store_true", help="why each test that does not agree does not")
    parser.add_argument("--every", type=int, default=1, help="one test in so many")
    parser.add_argument("--ops", action="store_true", help="how many tests fail for each op of the model's first node")
    wanted = parser.parse_args()
    for kind in wanted.kind or KINDS:
        chosen = list(cases(kind, wanted.filter, slice(None, None, wanted.every)))
        failed = {case.name: (reason, case.model.graph.node[0].op_type) for case in chosen if (reason := failure(case))}
        if wanted.verbose:
            for name, (reason, _) in failed.items():
                print(f"{name}: {reason}")
        if wanted.ops:
            print(*(f"{op} {count}" for op, count in Counter(op for _, op in failed.values()).most_common()), sep=", ")
        print(f"{kind}: {len(chosen) - len(failed)} / {len(chosen)}")


if __name__ == "__main__":
    main()
