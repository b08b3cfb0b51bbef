"""Lowering of functional control flow to Switch, Merge, Enter, Exit and NextIteration, as TensorFlow does it.

Marked `If`, `Case` and `While` nodes become control flow around calls of their functions. These calls, and other marked calls,
are then replaced by the functions' bodies.  Names, devices and order of the new nodes are TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.core.dtypes import BOOL, INT32, RESOURCE
from placesim.core.errors import InvalidArgumentError, OpError
from placesim.graph.functions import FunctionBody, find_function, instantiate, path_of_body
from placesim.graph.graph import Node, Origin
from placesim.graph.node_text import node_tag
from placesim.machine.device_names import parse_runtime_name
from placesim.ops.attributes import FunctionName
from placesim.ops.categories import ARGUMENTS, CALLS, CASES, ENTERS, FUNCTION_ENDS, IFS, WHILES
from placesim.placement.editable_graph import EditableGraph
from placesim.placement.editable_node import EditableNode
from placesim.placement.input_checks import missing_output, output_dtype

SWITCH_MERGE = "_lower_using_switch_merge"
MULTI_DEVICE = "_lower_as_multi_device_function"

IDENTITY_N = "IdentityN"
MOST_LOWERED = 200_000
"""Maximum nodes added by inlining functions: nested conditionals double at each level."""

Output = tuple[EditableNode, int]


def is_lowered(node: Node | EditableNode) -> bool:
    """Return whether a node is marked for replacement."""
    return bool(node.attrs.get(SWITCH_MERGE) or node.attrs.get(MULTI_DEVICE))


def lower_functional_ops(edited: EditableGraph) -> None:
    """Replace every marked node, including those that a replacement adds.

    A mark on an op that cannot be lowered is ignored.  Raises InvalidArgumentError for an unknown function, and for a function
    that does not fit the node. The message is TensorFlow's, except where TensorFlow crashes: if a node reads an output that no
    branch has.
    """
    # A graph with function ends is a function's body.  Its nodes are not fetched by name, so no name must be kept.
    keep_fetchable = not any(node.op in FUNCTION_ENDS for node in edited.nodes)
    position, most = 0, len(edited.nodes) + MOST_LOWERED
    while position < len(edited.nodes):
        node = edited.nodes[position]
        if len(edited.nodes) > most:
            raise InvalidArgumentError(
                f"functions expand too far: got more than {MOST_LOWERED} nodes from bodies, at {node_tag(node.name)}"
            )
        position += 1
        # TensorFlow leaves nodes that XLA or a TPU will compile as functions
        if node.removed or node.attrs.get("_tpu_replicate") or node.attrs.get("_xla_compile_id"):
            continue
        # an op that is not registered is a call: its type is the function's name (4.3)
        is_call = node.op in CALLS or node.signature.definition is None
        if is_lowered(node):
            edited.origin = Origin(f"{(node.origin.path if node.origin else node.name).removesuffix('/')}/")
        try:
            if is_call and node.attrs.get(MULTI_DEVICE):
                inline_call(edited, node, keep_fetchable)
            elif node.attrs.get(SWITCH_MERGE):
                _lower(edited, node, keep_fetchable)
        except OpError as error:
            # a node of an inlined body has no line of its own, so the line of the outermost call stands for it
            error.location = error.location or edited.location(node)
            raise
    edited.origin = None


def _lower(edited: EditableGraph, node: EditableNode, keep_fetchable: bool) -> None:
    if node.op in IFS or node.op in CASES:
        _Conditional(edited, node).lower(keep_fetchable)
    elif node.op in WHILES:
        _Loop(edited, node).lower(keep_fetchable)


def _call_attrs(function: FunctionName) -> dict[str, Any]:
    return {MULTI_DEVICE: True, **dict(function.attrs)}


class _Conditional:
    """Lowering of an `If` or `Case`: a switch for each input, a call for each branch, and a merge for each output.

    `If` has two branches in the order else, then.  Its names and the order of its new nodes differ from those of `Case`.
    """

    def __init__(self, edited: EditableGraph, node: EditableNode) -> None:
        self.edited = edited
        self.node = node
        self.is_if = node.op in IFS
        attrs = node.attrs
        # the output of Switch for false is 0, so else comes first
        self.branches = [attrs["else_branch"], attrs["then_branch"]] if self.is_if else list(attrs["branches"])
        self.selector = node.data[0]
        if self.is_if:
            then_name, else_name = self._name("then"), self._name("else")
            # TensorFlow names the then branch first, and the numbers in names show it
            self.call_names = [else_name, then_name]
        else:
            self.call_names = [self._name(f"branch{i}") for i in range(len(self.branches))]

    def _name(self, infix: str) -> str:
        return self.edited.new_name(f"{self.node.name}/{infix}")

    def _add(
        self, infix: str, op: str, attrs: dict[str, Any], data: Sequence[Output], control: Sequence[EditableNode] = ()
    ) -> EditableNode:
        return self.edited.add(self._name(infix), op, attrs, self.node.device, data, control, self.node.location)

    def lower(self, keep_fetchable: bool) -> None:
        edited, node = self.edited, self.node
        switch = self._add_switch("switch_pred" if self.is_if else "branch_index", self.selector, node.device, {})
        pivots = self._add_pivots(switch)
        inputs = [
            # the label lacks `loc:@`, as in TensorFlow's `LowerIfOp`, so the placer ignores it
            self._add_switch(source.name, (source, slot), source.device, {"_class": (source.name,)})
            for source, slot in node.data[1:]
        ]
        for source in node.control:
            edited.control(source, switch)
        calls = self._add_calls(inputs, pivots)
        count = len(self._merged(calls)[0].signature.output_dtypes)
        merges = [
            self._add_merge("output" if self.is_if else "merge", [(call, i) for call in self._merged(calls)])
            for i in range(count)
        ]
        pivot_outputs = [(pivot, 0) for pivot in self._merged(pivots)]
        # nodes that wait for the conditional wait for this merge, and so also for a branch without outputs
        executed = self._add_merge("branch_executed", pivot_outputs, self._merged(calls))
        outputs = [(merge, 0) for merge in merges]
        # in a body nobody fetches by name, so there a NoOp suffices as substitute
        _add_substitute(edited, node, outputs if keep_fetchable else [], [executed])
        for reader, position in edited.data_readers(node):
            slot = reader.data[position][1]
            if slot >= count:
                raise missing_output(node.name, IDENTITY_N if count else "NoOp", count, slot)
        edited.replace(node, outputs, executed)

    def _merged(self, nodes: Sequence[EditableNode]) -> list[EditableNode]:
        """Return the branches in the order in which they are merged: for `If`, then comes before else."""
        return list(reversed(nodes)) if self.is_if else list(nodes)

    def _add_switch(self, infix: str, data: Output, device: str, attrs: dict[str, Any]) -> EditableNode:
        dtype = data[0].output_dtype(data[1])
        if self.is_if:
            op, attrs = "Switch", {"T": dtype, **attrs}
        else:
            op, attrs = "_SwitchN", {"T": dtype, "num_outs": len(self.branches), **attrs}
        return self.edited.add(self._name(infix), op, attrs, device, [data, self.selector], (), self.node.location)

    def _add_pivots(self, switch: EditableNode) -> list[EditableNode]:
        dtype = BOOL if self.is_if else INT32
        infixes = ("pivot_f", "pivot_t") if self.is_if else tuple(f"pivot_{i}" for i in range(len(self.branches)))
        return [self._add(infix, "Identity", {"T": dtype}, [(switch, i)]) for i, infix in enumerate(infixes)]

    def _add_calls(self, inputs: Sequence[EditableNode], pivots: Sequence[EditableNode]) -> list[EditableNode]:
        calls: dict[int, EditableNode] = {}
        numbers = range(len(self.branches))
        # nodes are numbered in the order in which they are made, and TensorFlow makes the then branch first
        for i in reversed(numbers) if self.is_if else numbers:
            function = self.branches[i]
            # an unknown function is reported with the name of the conditional
            find_function(self.edited.base, function.name, self.node.name)
            data = [(switch, i) for switch in inputs]
            attrs = _call_attrs(function)
            calls[i] = self.edited.add(self.call_names[i], function.name, attrs, self.node.device, data, [pivots[i]])
        return [calls[i] for i in numbers]

    def _add_merge(self, infix: str, data: Sequence[Output], control: Sequence[EditableNode] = ()) -> EditableNode:
        source, slot = data[0]
        return self._add(infix, "Merge", {"T": output_dtype(source, slot, "Merge"), "N": len(data)}, data, control)


class _Loop:
    """Lowering of a `While`: an enter, merge, switch, exit and next iteration for each loop variable.

    A resource enters through a constant enter and is not passed from iteration to iteration.
    """

    def __init__(self, edited: EditableGraph, node: EditableNode) -> None:
        self.edited = edited
        self.node = node
        self.cond_name = edited.new_name(f"{node.name}/cond")
        self.body_name = edited.new_name(f"{node.name}/body")
        find_function(edited.base, node.attrs["body"].name, node.name)  # raises if there is no such function
        # 1.15 passes resources from iteration to iteration, like tensors (13.16)
        goes_round = edited.base.registry.rules.resources_go_round
        self.is_resource = [not goes_round and source.output_dtype(slot) is RESOURCE for source, slot in node.data]
        # the condition waits for a merge, and only loop-carried tensors have a merge
        if all(self.is_resource):
            raise InvalidArgumentError(f"{node_tag(node.name)} can't be lowered: none of its inputs is a loop-carried tensor")

    def _add(
        self,
        infix: str,
        op: str,
        attrs: dict[str, Any],
        device: str,
        data: Sequence[Output],
        control: Sequence[EditableNode] = (),
    ) -> EditableNode:
        name = self.edited.new_name(f"{self.node.name}/{infix}")
        return self.edited.add(name, op, attrs, device, data, control, self.node.location)

    def lower(self, keep_fetchable: bool) -> None:
        edited, node = self.edited, self.node
        varying = [i for i, is_resource in enumerate(self.is_resource) if not is_resource]
        enters = self._add_enters()
        # each merge reads its enter twice until the next iteration exists, which replaces one of them
        merges = {
            i: self._add("merge", "Merge", {"T": _dtype(node, i), "N": 2}, enters[i].device, [(enters[i], 0), (enters[i], 0)])
            for i in varying
        }
        heads = [(merges[i], 0) if i in merges else (enters[i], 0) for i in range(len(node.data))]
        cond = edited.add(
            self.cond_name, node.attrs["cond"].name, _call_attrs(node.attrs["cond"]), node.device, heads, [merges[varying[0]]]
        )
        loop_cond = self._add("LoopCond", "LoopCond", {}, node.device, [(cond, 0)])
        switches = {
            i: self._add(
                f"{node.data[i][0].name}_switch",
                "Switch",
                {"T": _dtype(node, i)},
                merges[i].device,
                [(merges[i], 0), (loop_cond, 0)],
            )
            for i in varying
        }
        inner = [(switches[i], 1) if i in switches else (enters[i], 0) for i in range(len(node.data))]
        body = edited.add(self.body_name, node.attrs["body"].name, _call_attrs(node.attrs["body"]), node.device, inner)
        first = switches[varying[0]]
        # a node of the body without inputs would otherwise run outside the loop's frame
        control = self._add("loop_body_control", "Identity", {"T": _dtype(node, varying[0])}, node.device, [(first, 1)])
        edited.control(control, body)
        exits = {i: self._add("exit", "Exit", {"T": _dtype(node, i)}, switches[i].device, [(switches[i], 0)]) for i in varying}
        # a resource does not change in a loop: its readers read the input
        outputs = [(exits[i], 0) if i in exits else node.data[i] for i in range(len(node.data))]
        # control readers of the loop wait until it has ended, not for a single exit
        executed = self._add("LoopExecuted", "NoOp", {}, node.device, (), list(exits.values()))
        if keep_fetchable:
            _add_substitute(edited, node, outputs, [])
        else:
            _add_substitute(edited, node, [], [executed])
        for i in varying:
            attrs = {"T": output_dtype(body, i, "NextIteration")}
            # a body may have effects that no output depends on; the control edge makes the iteration wait for them
            following = self._add("next_iteration", "NextIteration", attrs, merges[i].device, [(body, i)], [body])
            edited.reconnect(merges[i], 1, following, 0)
        edited.replace(node, outputs, executed)

    def _add_enters(self) -> list[EditableNode]:
        node = self.node
        # the op's default; the attr may be left out of a NodeDef
        iterations = node.attrs.get("parallel_iterations", 10)
        enters = []
        for i, (source, slot) in enumerate(node.data):
            attrs = {"T": source.output_dtype(slot), "frame_name": node.name, "parallel_iterations": iterations}
            if self.is_resource[i]:
                attrs["is_constant"] = True
            # in 1.15 the node for an input requests the loop's device (13.16)
            device = source.device if self.edited.base.registry.rules.loops_follow_inputs else node.device
            enters.append(self._add("enter", "Enter", attrs, device, [(source, slot)]))
        # one NoOp in between, so that each Enter gets one control edge instead of one for each node waited for
        if node.control:
            incoming = self._add("LoopControlInputs", "NoOp", {}, node.device, (), list(node.control))
            for enter in enters:
                self.edited.control(incoming, enter)
        return enters


def _dtype(node: EditableNode, i: int) -> Any:
    source, slot = node.data[i]
    return source.output_dtype(slot)


def _add_substitute(
    edited: EditableGraph, node: EditableNode, outputs: Sequence[Output], control: Sequence[EditableNode]
) -> None:
    """Add a node with the name of the replaced node, so that the name can still be a fetch or a target."""
    if outputs:
        types = tuple(source.output_dtype(slot) for source, slot in outputs)
        edited.add(node.name, IDENTITY_N, {"T": types}, node.device, outputs, control, node.location)
    else:
        edited.add(node.name, "NoOp", {}, node.device, (), control, node.location)


# --- calls ----------------------------------------------------------------------------------------------------------


def inline_call(edited: EditableGraph, caller: EditableNode, keep_fetchable: bool) -> None:
    """Replace a call by its function's body, with an identity for each input and each output.

    The call remains if its function is marked `_noinline`, or has other input or output types than the call.  Raises
    InvalidArgumentError for an unknown function.
    """
    called = caller.attrs["f"] if caller.op in CALLS else FunctionName(caller.op)
    function = find_function(edited.base, called.name, caller.name)
    # TensorFlow then keeps the call, and runs the function at run time (9.8)
    if function.attrs.get("_noinline"):
        return
    body = instantiate(edited.base, function, {**dict(called.attrs), **caller.attrs})
    if not _fits(body, caller):
        return
    _Inlining(edited, caller, body, {arg.name: i for i, arg in enumerate(function.inputs)}).run(keep_fetchable)


def _fits(body: FunctionBody, caller: EditableNode) -> bool:
    """Return whether the types of a call's inputs and outputs are those of the function."""
    nodes = body.graph.nodes
    taken = [nodes[i].signature.output_dtypes[0] for i in body.args]
    returned = tuple(nodes[i].signature.input_dtypes[0] for i in body.results)
    return taken == [source.output_dtype(slot) for source, slot in caller.data] and returned == caller.signature.output_dtypes


class _Inlining:
    """The replacement of one call by its function's body. Nodes keep their device fields; the call fills in the rest."""

    def __init__(self, edited: EditableGraph, caller: EditableNode, body: FunctionBody, arg_positions: dict[str, int]) -> None:
        self.edited = edited
        self.caller = caller
        self.body = body
        self.arg_positions = arg_positions
        self.function = caller.attrs["f"].name if caller.op in CALLS else caller.op
        self.rules = edited.base.registry.rules

    def run(self, keep_fetchable: bool) -> None:
        edited, caller = self.edited, self.caller
        entry = self._no_op("input_control_node", list(caller.control)) if caller.control else None
        inputs = [self._identity("input", source, source[0].device) for source in caller.data]
        copies = self._copy_body(entry, inputs)
        # a node's number determines its position in the log: 1.15 makes these nodes after the body (13.15)
        if inputs and not self.rules.inputs_precede_bodies:
            edited.move_to_end(inputs)
        if entry is not None:
            for identity in inputs:
                edited.control(entry, identity)
        outputs: list[Output] = [(output, 0) for output in self._outputs(copies)]
        leaving = self._no_op("output_control_node", [copies[i] for i in self.body.control_results])
        # without side effects in the body, the call's readers could run before the nodes that the call waits for
        if not leaving.control and entry is not None:
            edited.control(entry, leaving)
        edited.replace(caller, outputs, leaving)
        _add_substitute(edited, caller, outputs if keep_fetchable else [], [leaving])

    def _no_op(self, infix: str, control: Sequence[EditableNode]) -> EditableNode:
        name = self.edited.new_name(f"Func/{self.caller.name}/{infix}")
        return self.edited.add(name, "NoOp", {}, self.caller.device, (), control, self.caller.location)

    def _identity(self, infix: str, data: Output, device: str) -> EditableNode:
        name = self.edited.new_name(f"Func/{self.caller.name}/{infix}")
        attrs: dict[str, Any] = {"T": data[0].output_dtype(data[1])}
        if self.rules.labels_ends_of_calls:
            # the ends of a call are colocated with the tensor that they pass on
            attrs["_class"] = (f"loc:@{data[0].name}",)
        return self.edited.add(name, "Identity", attrs, device, [data], (), self.caller.location)

    def _copy_body(self, entry: EditableNode | None, inputs: Sequence[EditableNode]) -> dict[int, EditableNode]:
        """Copy the body's nodes and return them by their ids in the body.

        The input identities replace its arguments, but each argument still takes a number.
        """
        edited, graph = self.edited, self.body.graph
        copies: dict[int, EditableNode] = {}
        path = path_of_body("" if edited.origin is None else edited.origin.path.removesuffix("/"), self.function)
        for node in graph.nodes:
            name, attrs = f"{self.caller.name}/{node.name}", self._attrs(node, inputs)
            copy = edited.copy(name, node.op, attrs, self._device(node.device), node.location)
            copy.origin = Origin(f"{path}/{node.name}", self.function, node.name)
            copies[node.id] = copy
            is_call = node.op in CALLS or node.signature.definition is None
            has_inputs = bool(node.input_nodes or node.control_inputs)
            # without this control edge, a node without inputs (also in a called body) would run before the nodes that the call
            # waits for
            if entry is not None and node.op not in ARGUMENTS and (not has_inputs or (is_call and not node.control_inputs)):
                edited.control(entry, copy)
        for position, node_id in enumerate(self.body.args):
            # TensorFlow adds the arguments and then replaces them, so each has taken a number (6.5.1)
            copies[node_id].removed = True
            copies[node_id] = inputs[position]
        for node in graph.nodes:
            if node.op in ARGUMENTS:
                continue
            for i, slot in zip(node.input_nodes, node.input_slots, strict=True):
                edited.connect(copies[i], slot, copies[node.id])
            for i in node.control_inputs:
                edited.control(copies[i], copies[node.id])
        return copies

    def _attrs(self, node: Node, inputs: Sequence[EditableNode]) -> dict[str, Any]:
        attrs = dict(node.attrs)
        if node.op in ENTERS:
            # two calls of one function must not share a frame
            attrs["frame_name"] = f"{self.caller.name}/{attrs['frame_name']}"
        # in 1.15 the body's nodes lose their labels (13.15)
        if not self.rules.keeps_labels_of_bodies:
            attrs.pop("_class", None)
        elif isinstance(attrs.get("_class"), tuple):
            attrs["_class"] = tuple(self._label(label, inputs) for label in attrs["_class"])
        return attrs

    def _label(self, label: str, inputs: Sequence[EditableNode]) -> str:
        name = label.removeprefix("loc:@")
        if name in self.arg_positions:
            return f"loc:@{inputs[self.arg_positions[name]].name}"
        return f"loc:@{self.caller.name}/{name}" if name in self.body.graph.ids else label

    def _device(self, requested: str) -> str:
        """Return the device of an inlined node: its own, completed by the caller's; in 1.15, always with the caller's task."""
        if not requested:
            return self.caller.device
        own, outer = parse_runtime_name(requested), parse_runtime_name(self.caller.device)
        if own is None or outer is None:
            return requested
        # 1.15 uses job, replica and task of the call even if the node names others (13.15)
        if self.rules.callers_override_tasks:
            return str(own.specialised_by(outer.address_space))
        return str(outer.specialised_by(own))

    def _outputs(self, copies: dict[int, EditableNode]) -> list[EditableNode]:
        outputs = []
        for node_id in self.body.results:
            result = copies[node_id]
            identity = self._identity("output", result.data[0], "")
            # a control input of `_Retval` would be lost with the node
            for source in result.control:
                self.edited.control(source, identity)
            self.edited.remove(result)
            outputs.append(identity)
        return outputs
