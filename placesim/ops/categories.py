"""Ops that one rule of TensorFlow's treats alike: sets of op names, each with the rule that asks for it.

A rule that looks at what an op's definition says (stateful, a reference, the type of an output) has no set here.
"""

from __future__ import annotations

# --- control flow ---------------------------------------------------------------------------------------------------

SWITCHES = ("Switch", "RefSwitch")
"""Hand their input on at one of two outputs: a partition moves them to their input's device (8.10), an executor leaves the
other output dead.  `_SwitchN`, of any number of outputs, is not moved."""
MERGES = ("Merge", "RefMerge")
"""Ready with the first live input; the only ops that an edge may lead back to, in a loop (6.5.2)."""
ENTERS = ("Enter", "RefEnter")
"""Take a value into a loop's frame, which their attr `frame_name` names."""
EXITS = ("Exit", "RefExit")
"""Take a value out of a loop's frame."""
NEXT_ITERATIONS = ("NextIteration", "RefNextIteration")
"""Take a value to the next iteration: the sources of the edges that lead back (6.5.2)."""
FORWARDING_CONTROL_FLOW = frozenset((*SWITCHES, "_SwitchN", *MERGES, *ENTERS, *EXITS, *NEXT_ITERATIONS))
"""Control-flow ops whose outputs are their inputs, with the same full type (5.12)."""
CONTROL_FLOW = FORWARDING_CONTROL_FLOW | {"LoopCond"}
"""The ops that make tensors dead, or that a value enters or leaves a loop by: a graph with any is run by data flow."""

# --- crosses of features ---------------------------------------------------------------------------------------------

CROSSES = frozenset(("RaggedCross", "SparseCross", "SparseCrossHashed", "SparseCrossV2"))
"""Ops with one kernel for all types: sessions accept lists of types that their definitions do not allow, as recorded; only
`import_graph_def` checks the definition.
"""

# --- functions ------------------------------------------------------------------------------------------------------

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
"""Ops that call the function in their attr `f`: inlined if marked for it, examined if they return a resource (5.8), and not
restricted by variants in them (5.12).
"""
IFS = ("If", "StatelessIf")
"""Become a Switch for each input and a Merge for each output before placement."""
CASES = ("Case", "StatelessCase")
"""As `IFS`, with a branch for each number."""
WHILES = ("While", "StatelessWhile")
"""Become a loop of Enter, Merge, Switch, NextIteration and Exit before placement."""
LOWERED = frozenset((*IFS, *CASES, *WHILES, *CALLS))
"""Ops that lowering may replace, if a node is marked for it."""
BRANCHES = (*IFS, "_If", *CASES)
"""Call one of several functions, by their first input."""
LOOPS = (*WHILES, "_While", "For")
"""Call a function again and again."""
SINGLE_DEVICE_CALLS = frozenset((*BRANCHES, *LOOPS, "OneShotIterator"))
"""Ops whose functions, unless lowered, run entirely on the op's device, whatever their nodes request; the same holds for
functions called by an op of their name (9.8).
"""
WITHOUT_DEFAULT_DEVICE = ("ReduceDataset",)
"""Calls that keep only their function's arguments and results on their own device; other nodes without a request are placed as
in a graph (9.8).
"""
MEMORY_BY_TYPE = ("SymbolicGradient", *CALLS, "While")
"""Calls whose tensors are in host or device memory by their types, not by their kernels' declarations (8.6)."""
RUN_ATTRS = {
    **dict.fromkeys((*CALLS, "RemoteCall"), "f"),
    **dict.fromkeys(IFS, "then_branch"),
    **dict.fromkeys(CASES, "branches"),
}
"""Attr with the called function, for calls whose attr `Tout` has the result types."""
FUNCTION_ENDS = ("_Arg", "_Retval")
"""The arguments and results of a function's body, and the feeds and fetches of a step (8.11)."""

# --- variables, and ops that hand a tensor on -----------------------------------------------------------------------

REF_VARIABLES = ("VariableV2", "Variable")
"""Hold a reference variable."""
VARIABLES = (*REF_VARIABLES, "VarHandleOp")
"""Ops that hold a variable, of both kinds (12.1): restored by checkpoints, and part of a device's state."""
CONSTANTS = ("Const", "HostConst")
"""Hold a constant."""
PERSISTENT = ("Const", *REF_VARIABLES)
"""Keep their output from step to step."""
OWNED_OUTPUTS = frozenset(("Const", "VarHandleOp"))
"""Own their output from the moment when their kernels are made."""
ASSIGNMENTS = ("Assign", "AssignVariableOp")
"""Ops that set a variable: the end of a restored tensor's path."""
IDENTITIES = ("Identity", "RefIdentity")
"""Hand their input on: the placer may put them with it (6.3 B2)."""
IDENTITIES_BY_SLOT = ("Identity", "IdentityN")
"""Hand input i on at output i: what a restored tensor is followed through on its way to a variable."""
SHAPE_READERS = ("Shape", "Size", "Rank")
"""Need only the shape of their input: the placer puts them with it (6.3 B1; `ShapeN` it does not)."""
SHAPE_OPS = (*SHAPE_READERS, "ShapeN")
"""Look at nothing but the shapes of their inputs."""
JOINS = ("Pack", "Concat", "ConcatV2")
"""Ops that concatenate tensors, through which known parts of a shape stay known."""
PARTIAL_SHAPE_OPS = frozenset((*JOINS, "StridedSlice", "Cast"))
"""Ops through which shape inference tracks partly known shapes."""
PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
"""Have an attr `shape` that a fed tensor must fit."""
UNFED_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
"""Placeholders without a default: if one is fed, its control successors wait for the fed value instead."""

# --- sends and receives ---------------------------------------------------------------------------------------------

SENDS = ("_Send", "_HostSend")
"""Hand a tensor to another partition, from a device's memory or the host's (8.6)."""
RECEIVES = ("_Recv", "_HostRecv")
"""Take a tensor from another partition."""
WITHOUT_STATE = frozenset(
    (*FUNCTION_ENDS, *SENDS, *RECEIVES, "Assert", "Print", "PrintV2", "StatefulPartitionedCall", "If", "While", "Case", "For")
)
"""Marked as stateful, though they keep nothing from one run to the next."""

# --- resources and variants -----------------------------------------------------------------------------------------

FREE_OF_RESOURCES = frozenset(
    [
        "IdentityN",
        "ChooseFastestBranchDataset",
        "DeleteMultiDeviceIterator",
        "ExperimentalChooseFastestDataset",
        "ExperimentalGroupByReducerDataset",
        "ExperimentalGroupByWindowDataset",
        "ExperimentalMapAndBatchDataset",
        "ExperimentalMapDataset",
        "ExperimentalParallelInterleaveDataset",
        "ExperimentalScanDataset",
        "ExperimentalTakeWhileDataset",
        "FilterDataset",
        "FlatMapDataset",
        "GeneratorDataset",
        "GroupByReducerDataset",
        "GroupByWindowDataset",
        "InterleaveDataset",
        "LegacyParallelInterleaveDatasetV2",
        "MapAndBatchDataset",
        "MapDataset",
        "ParallelFilterDataset",
        "ParallelInterleaveDataset",
        "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4",
        "ParallelMapDataset",
        "ParallelMapDatasetV2",
        "ReduceDataset",
        "ScanDataset",
        "TakeWhileDataset",
        *CALLS,
    ]
)
"""Ops that need not be with the resources that they read: they only hand them to a function (5.6)."""
TENSOR_LISTS = frozenset(
    [
        "EmptyTensorList",
        "TensorListConcat",
        "TensorListConcatLists",
        "TensorListConcatV2",
        "TensorListFromTensor",
        "TensorListGather",
        "TensorListGetItem",
        "TensorListPopBack",
        "TensorListPushBack",
        "TensorListPushBackBatch",
        "TensorListReserve",
        "TensorListScatter",
        "TensorListScatterIntoExistingList",
        "TensorListScatterV2",
        "TensorListSetItem",
        "TensorListSplit",
        "TensorListStack",
    ]
)
"""Ops whose attr `element_dtype` is the element type of the variants around them (5.12)."""
KEEPING_FULL_TYPE = frozenset((*IDENTITIES, *FORWARDING_CONTROL_FLOW))
"""Ops whose outputs have the full type of their inputs (5.12)."""
WITHOUT_HOST_MEMORY = frozenset(("_Retval", *CALLS, *KEEPING_FULL_TYPE))
"""Ops with nothing in host memory of their own; so they must be where a host-only input is (5.12)."""
