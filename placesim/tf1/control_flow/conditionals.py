"""`tf.cond`, `tf.case` and `tf.switch_case`: run one of several functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from placesim.tf1.array.shaping import stack
from placesim.tf1.control_flow.contexts import ControlFlowContext, is_in, outside
from placesim.tf1.control_flow.switching import merge, switch_colocated
from placesim.tf1.control_flow.tensor_arrays import TensorArray, pack_with_flows
from placesim.tf1.control_flow.versions import is_version_2
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.math.reductions import reduce_sum
from placesim.tf1.ops.conversion import constant, convert_n_to_tensor, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.types import dtypes, nest
from placesim.tf1.types.read_only import read_only
from placesim.tf1.variables.resource import ResourceVariable


class CondContext(ControlFlowContext):
    """One branch of a conditional; `branch` is the index of the Switch output that feeds it: 1 for true, 0 for false."""

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int) -> None:
        super().__init__()
        self._name = self.graph.unique_name("cond_text")
        self.pred = pred
        self._pivot = pivot
        self.branch = branch
        self.known.add(pred)
        self.inside[pred] = pred
        self.known.add(pivot)
        # the pivot was made before the branch, but runs only if the branch is taken
        pivot.op._control_flow_context = self

    name: str = read_only("_name")
    pivot: Tensor = read_only("_pivot")

    def add_value(self, tensor: Tensor) -> Tensor:
        """Return the inner tensor for an outer one: an output of a Switch, which is made once for each tensor and branch."""
        if tensor in self.known:
            return self.inside.get(tensor, tensor)
        self.known.add(tensor)
        found = self._outside(tensor)
        # the Switch must not wait for a control scope inside the branch
        with outside(self.graph):
            passed = switch_colocated(found, self.pred)[self.branch]
            if self.outer is not None:
                self.outer.add_inner_op(passed.op)
        # a tensor of a branch that is not taken has no value
        self.graph.prevent_fetching(passed.op)
        self.graph.prevent_feeding(passed)
        passed.op._control_flow_context = self
        self._make_known([passed])
        self.inside[tensor] = passed
        return passed

    def _outside(self, tensor: Tensor) -> Tensor:
        if self.outer is None:
            return tensor
        found = self.outer.add_value(tensor)
        self.known.add(found)
        self.inside[found] = found
        return found

    def _take(self, op: Operation) -> None:
        """Replace an op's inputs by inner tensors; an op without inputs waits for the pivot."""
        if op.node.input_nodes:
            self._replace_inputs(op)
            self._drop_outer_controls(op)
            # the body of a called function may have ops without inputs, which would run even if the branch is not taken
            if op.node.signature.definition is None or op.type == "SymbolicGradient":
                op._add_control_input(self.pivot.op)
        else:
            self._drop_outer_controls(op)
            # an op without inputs would run even if the branch is not taken
            if not any(is_in(control, self) for control in op.control_inputs):
                op._add_control_input(self.pivot.op)
        self._make_known(op.outputs)

    def _make_known(self, tensors: Sequence[Tensor]) -> None:
        """Add tensors to the known tensors of this context and of all contexts around it."""
        context: ControlFlowContext | None = self
        while context is not None:
            context.known.update(tensors)
            context = context.outer

    def build(self, function: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
        """Call the branch's function; return its result, and the tensors of the result for the Merges."""
        # summaries of a branch must not be merged outside it, so its results wait for them
        summaries = self.summaries()
        original = function()
        added = self.take_summaries(len(summaries))
        if added:
            with self.graph.control_dependencies(added):
                original = gen("NoOp")() if original is None else nest.map_structure(_as_identity, original)
        if original is None:
            return None, []
        return original, nest.flatten(nest.map_structure(self._result, original), expand_composites=True)

    def _result(self, value: TensorLike) -> Any:
        if isinstance(value, Operation):
            # an operation has no output to merge, so the pivot replaces it
            return with_dependencies([value], self.pivot)
        if isinstance(value, IndexedSlices | SparseTensor):
            return nest.with_components(value, [self._outgoing(tensor) for tensor in nest.components(value)])
        if isinstance(value, TensorArray):
            # of an array, only the flow is a value of the branch: both branches use one handle
            return self._outgoing(value.flow)
        return self._outgoing(convert_to_tensor(value))

    def _outgoing(self, tensor: Tensor) -> Tensor:
        """Result tensor of the branch; an outer tensor is passed through a Switch."""
        if tensor in self.known:
            return self.inside.get(tensor, tensor)
        self.known.add(tensor)
        passed = switch_colocated(self._outside(tensor), self.pred)[self.branch]
        self.inside[tensor] = passed
        return passed


def _as_identity(value: TensorLike) -> Any:
    if isinstance(value, TensorArray | IndexedSlices | SparseTensor):
        return value
    if isinstance(value, Operation):
        return gen("NoOp")()
    return gen("Identity")(value)


def cond(
    pred: TensorLike,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: object = None,
    fn2: object = None,
) -> Any:
    """`tf.cond`: the results of one of two functions.  Raises TensorFlow's TypeError and ValueError."""
    true_fn = _one_of("true_fn", true_fn, "fn1", fn1)
    false_fn = _one_of("false_fn", false_fn, "fn2", fn2)
    for word, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"'{word}' must be callable.")
    if is_version_2():
        from placesim.tf1.functions import branches

        return branches.cond(pred, true_fn, false_fn, name)
    with name_scope(name, "cond", [pred]):
        if isinstance(pred, bool):
            # raised inside the scope, so that the name `cond` is taken
            raise TypeError("'pred' must not be a Python bool.")
        return _build(pred, true_fn, false_fn, strict)


def _one_of(new: str, given: object, old: str, other: object) -> Any:
    if other is None:
        if given is None:
            raise TypeError(f"cond(): '{new}' argument required")
        return given
    if given is not None:
        raise TypeError(f"cond(): '{new}' and '{old}' may not be set simultaneously.")
    return other


def _build(given: TensorLike, true_fn: Callable[[], Any], false_fn: Callable[[], Any], strict: bool) -> Any:
    graph = get_default_graph()
    when_false, when_true = _switch_by_itself(given)
    pivots = (gen("Identity")(when_true, name="switch_t"), gen("Identity")(when_false, name="switch_f"))
    pred = gen("Identity")(given, name="pred_id")
    for tensor in (when_false, when_true, *pivots, pred):
        graph.prevent_fetching(tensor.op)
    contexts, originals, results = [], [], []
    for word, function, pivot, branch in zip(("true_fn", "false_fn"), (true_fn, false_fn), pivots, (1, 0), strict=True):
        context = CondContext(pred, pivot, branch)
        with context.entered():
            original, flat = context.build(function)
            if original is None:
                raise ValueError(f"'{word}' must have a return value.")
            context.leave_results(flat)
        contexts.append(context)
        originals.append(original)
        results.append(flat)
    # a list of one result is unpacked before structures are compared, so `[x]` and `x` agree
    if not strict:
        originals = [_unpacked(original) for original in originals]
    nest.assert_same_structure(originals[0], originals[1])
    for one, other in zip(*results, strict=True):
        if one.dtype.base_dtype is not other.dtype.base_dtype:
            raise ValueError(
                "Outputs of 'true_fn' and 'false_fn' must have the same type(s). Received "
                f"{one.dtype.name} from 'true_fn' and {other.dtype.name} from 'false_fn'."
            )
    # output 1 of a Merge is its input's number: 0 for false, 1 for true
    merges = [merge([other, one]) for one, other in zip(*results, strict=True)]
    # a MetaGraph writes inner contexts inside their outer context
    if contexts[0].outer is None:
        for context in contexts:
            graph.add_to_collection(GraphKeys.COND_CONTEXT, context)
    packed = pack_with_flows(originals[0], merges)
    return packed if strict else _unpacked(packed)


def _switch_by_itself(pred: TensorLike) -> tuple[Tensor, Tensor]:
    """Make the Switch that has the predicate as data and as condition; its outputs become the branches' pivots."""
    with name_scope(None, "Switch", [pred]) as scope:
        if isinstance(pred, ResourceVariable):
            condition = convert_to_tensor(pred)
            return tuple(gen("Switch")(pred, condition))  # TensorFlow switches its parts, each in the scope
        data = convert_to_tensor(pred, name="data", as_ref=True)
        return tuple(gen("Switch")(data, convert_to_tensor(pred, name="pred"), name=scope))


def _unpacked(original: object) -> Any:
    return original[0] if isinstance(original, list | tuple) and len(original) == 1 else original


# --- case -----------------------------------------------------------------------------------------------------------


def case(pred_fn_pairs: object, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case") -> Any:
    """`tf.case`: result of the first true predicate's function.  Raises TypeError and ValueError in TensorFlow's words."""
    pairs = _checked_pairs(pred_fn_pairs)
    if not pairs:
        raise ValueError("not enough values to unpack (expected 2, got 0)")
    preds, actions = [pred for pred, _ in pairs], [action for _, action in pairs]
    with name_scope(name, "case", [preds]):
        if default is None:
            preds, actions, default = _last_as_default(preds, actions)
        function = default
        # the first true predicate wins, so its conditional is the outermost
        for pred, action in reversed(list(zip(preds, actions, strict=True))):
            function = partial(cond, pred, action, function, strict)
        if not exclusive:
            return function()
        with get_default_graph().control_dependencies([_at_most_true(preds, 1, "Input error: exclusive=True")]):
            return function()


def _checked_pairs(pairs: object) -> list[tuple[Any, Any]]:
    if not isinstance(pairs, list | tuple | dict):
        raise TypeError(f"'pred_fn_pairs' must be a list, tuple, or dict. Received: {type(pairs)}")
    if isinstance(pairs, Mapping):
        # a dict had no order in Python 2, so TensorFlow sorts by name
        pairs = sorted(pairs.items(), key=lambda item: item[0].name)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. Received {pair}.")
        pred, function = pair
        if not isinstance(pred, Tensor):
            raise TypeError(f"pred must be a Tensor, got: {pred}")
        if pred.dtype.name != "bool":
            raise TypeError(f"pred must be Tensor of type bool: {pred.name}")
        if not callable(function):
            raise TypeError(f"fn for pred {pred.name} must be callable.")
    return list(pairs)


def _last_as_default(preds: list[Any], actions: list[Any]) -> tuple[list[Any], list[Any], Callable[[], Any]]:
    """Make the last action the default, with an assertion that exactly its predicate holds."""
    others, last = preds[:-1], len(preds) - 1

    def default() -> Any:
        packed = stack(preds, name="preds_c")
        error = f"Implementation error: selected default action #{last} was called, but some of other predicates are True: "
        alone = _at_most_true(others, 0, error)
        with get_default_graph().control_dependencies(
            [alone, Assert(preds[last], ("Input error: None of conditions evaluated as True:", packed))]
        ):
            return actions[last]()

    return others, actions[:-1], default


def _at_most_true(preds: Sequence[Any], count: int, error: str) -> Operation:
    packed = stack(preds, name="preds_c")
    number = reduce_sum(cast(packed, dtypes.int32), name="num_true_conds")
    condition = gen("LessEqual")(number, constant(count, name="n_true_conds"))
    names = ", ".join(getattr(pred, "name", "?") for pred in preds)
    message = f"{error}: more than {count} conditions ({names}) evaluated as True:"
    return Assert(condition, [message, packed], summarize=len(preds))


def Assert(condition: TensorLike, data: Any, summarize: int | None = 3, name: str | None = None) -> Operation:  # noqa: N802
    """`tf.Assert`: fail with the data if a condition is false."""
    with name_scope(name, "Assert", [condition, data]):
        tensors = convert_n_to_tensor(data)
        if all(tensor.dtype.name in ("string", "int32") for tensor in tensors):
            # strings and int32 are in host memory, so a conditional would not save a copy
            found: Operation = gen("Assert")(condition, data, summarize, name="Assert")
            return found
        condition = convert_to_tensor(condition, name="Condition")
        guarded = cond(
            condition, gen("NoOp"), lambda: gen("Assert")(condition, data, summarize, name="Assert"), name="AssertGuard"
        )
        return guarded.op  # type: ignore[no-any-return]


def switch_case(branch_index: object, branch_fns: object, default: object = None, name: str = "switch_case") -> Any:
    """`tf.switch_case`: result of the function at `branch_index`; for other indices, of the default or last function."""
    from placesim.tf1.functions import branches

    functions = _indexed_functions(branch_fns, default)
    if not isinstance(branch_index, Tensor):
        raise TypeError(f"'branch_index' must be a Tensor, got {type(branch_index)}")
    if not branch_index.dtype.is_integer:
        raise TypeError(f"'branch_index' must be an integer Tensor, got {branch_index.dtype!s}")
    with name_scope(name, "switch_case", [branch_index]):
        return branches.switch_case(branch_index, functions, "indexed_case")


def _indexed_functions(given: object, default: Any) -> list[Callable[[], Any]]:
    """Functions of the indices 0, 1, ..., and then the default if there is one.  Other indices use the last function."""
    if not isinstance(given, list | tuple | Mapping):
        raise TypeError("'branch_fns' must be a list, tuple, or dict")
    if not given:
        raise ValueError("Must provide at least one item in 'branch_fns'")
    pairs: Any = given.items() if isinstance(given, Mapping) else given
    if all(callable(each) for each in pairs):
        pairs = enumerate(pairs)
    # also pairs may be given in any order, and their keys must be 0, 1, ...
    pairs = sorted(pairs)
    for key, function in pairs:
        if not isinstance(key, int):
            raise TypeError(f"key must be a Python `int`, got {type(key)}")
        if not callable(function):
            raise TypeError(f"fn for key {key} must be callable.")
    keys = [key for key, _ in pairs]
    if keys != list(range(len(pairs))):
        shown = ",".join(map(str, keys))
        raise ValueError(f"branch indices (keys) must form contiguous range of [0 to {len(pairs)}) but found {{{shown}}}")
    functions = [function for _, function in pairs]
    return functions if default is None else [*functions, default]
