"""Sets of op names, each with the rule of TensorFlow that treats these ops alike.

A rule that depends on op definitions (stateful ops, reference types, output types) needs no set.
"""

# --- control flow ---------------------------------------------------------------------------------------------------

SWITCHES = ("Switch", "RefSwitch")
"""Ops that pass their input to one of two outputs.

The partitioner moves them to their input's device (8.10), and an executor leaves the other output dead. `_SwitchN`, which may
have more outputs, is not moved.
"""
MERGES = ("Merge", "RefMerge")
"""Ops that run as soon as one input is live. In a loop, only these ops may be the target of an edge that leads back (6.5.2)."""
ENTERS = ("Enter", "RefEnter")
"""Ops that pass a value into the loop frame named by their attr `frame_name`."""
EXITS = ("Exit", "RefExit")
"""Ops that pass a value out of a loop's frame."""
NEXT_ITERATIONS = ("NextIteration", "RefNextIteration")
"""Ops that pass a value to the next iteration: the sources of the edges that lead back (6.5.2)."""
FOLLOWING_READER = ("Enter", *NEXT_ITERATIONS)
"""Ops that the partitioner moves to the device of the node that reads their output (8.10)."""
MOVED_BY_PARTITIONER = frozenset((*SWITCHES, *EXITS, *FOLLOWING_READER))
"""Ops that may run on another device than they are placed on."""
FORWARDING_CONTROL_FLOW = frozenset((*SWITCHES, "_SwitchN", *MERGES, *ENTERS, *EXITS, *NEXT_ITERATIONS))
"""Control-flow ops whose outputs are their inputs, with the same full type (5.12)."""
CONTROL_FLOW = FORWARDING_CONTROL_FLOW | {"LoopCond"}
"""Ops that make tensors dead, or pass values into or out of loops. A graph with any of them runs in dataflow order."""

# --- crosses of features ---------------------------------------------------------------------------------------------

CROSSES = frozenset(("RaggedCross", "SparseCross", "SparseCrossHashed", "SparseCrossV2"))
"""Ops with one kernel for all types.

Recordings show that sessions accept lists of types that the definitions do not allow; only `import_graph_def` checks them.
"""

# --- functions ------------------------------------------------------------------------------------------------------

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
"""Ops that call the function in their attr `f`.

A call is inlined if it is marked for inlining. The placer examines the function of a call that returns a resource (5.8).
Variants among the tensors of a call do not restrict the device of the call (5.12).
"""
IFS = ("If", "StatelessIf")
"""Ops that lowering replaces by a Switch for each input and a Merge for each output, before placement."""
CASES = ("Case", "StatelessCase")
"""Ops like `IFS`, with any number of branches, chosen by a number."""
WHILES = ("While", "StatelessWhile")
"""Ops that lowering replaces by a loop of Enter, Merge, Switch, NextIteration and Exit, before placement."""
LOWERED = frozenset((*IFS, *CASES, *WHILES, *CALLS))
"""Ops that lowering replaces if their node is marked for it."""
BRANCHES = (*IFS, "_If", *CASES)
"""Ops that call one of several functions, chosen by their first input."""
LOOPS = (*WHILES, "_While", "For")
"""Ops that call a function repeatedly."""
SINGLE_DEVICE_CALLS = frozenset((*BRANCHES, *LOOPS, "OneShotIterator"))
"""Ops whose functions, unless lowered, run entirely on the op's device, whatever their nodes request.

The same holds for an op that calls the function of the op's own name (9.8).
"""
WITHOUT_DEFAULT_DEVICE = ("ReduceDataset",)
"""Calls that place only the arguments and the results of the called function on the device of the call.

The function's other nodes that request no device are placed as in a graph (9.8).
"""
MEMORY_BY_TYPE = ("SymbolicGradient", *CALLS, "While")
"""Calls whose tensors are in host or device memory according to their types, not to the kernel registrations (8.6)."""
RUN_ATTRS = {
    **dict.fromkeys((*CALLS, "RemoteCall"), "f"),
    **dict.fromkeys(IFS, "then_branch"),
    **dict.fromkeys(CASES, "branches"),
}
"""For each call op whose attr `Tout` has the result types: the name of the attr with the called function."""
ARGUMENTS = ("_Arg",)
"""Ops for the arguments of a function's body, and for the feeds of a step (8.11)."""
RESULTS = ("_Retval",)
"""Ops for the results of a function's body, and for the fetches of a step (8.11)."""
FUNCTION_ENDS = (*ARGUMENTS, *RESULTS)
"""Ops at the ends of a function's body, and of a step."""

# --- variables, and ops that pass a tensor on -----------------------------------------------------------------------

REF_VARIABLES = ("VariableV2", "Variable")
"""Ops that hold a reference variable."""
VARIABLES = (*REF_VARIABLES, "VarHandleOp")
"""Ops that hold a variable of either kind (12.1): checkpoints restore them, and they are part of a device's state."""
CONSTANTS = ("Const", "HostConst")
"""Ops that hold a constant."""
PERSISTENT = ("Const", *REF_VARIABLES)
"""Ops that keep their output from step to step."""
OWNED_OUTPUTS = frozenset(("Const", "VarHandleOp"))
"""Ops whose kernel allocates the output when the kernel is created."""
VARIABLE_READS = ("ReadVariableOp",)
"""Ops that return the value of a resource variable."""
ASSIGNMENTS = ("Assign", "AssignVariableOp")
"""Ops that set a variable, for instance to a restored tensor."""
INITIALIZATION_QUERIES = ("IsVariableInitialized", "VarIsInitializedOp")
"""Ops that ask whether a variable has a value."""
IDENTITIES = ("Identity", "RefIdentity")
"""Ops that pass their input on; the placer may put them on the input's device (6.3 B2)."""
IDENTITIES_BY_SLOT = ("Identity", "IdentityN")
"""Ops that pass input i on as output i; a restored tensor may pass through them to its variable."""
SHAPE_READERS = ("Shape", "Size", "Rank")
"""Ops that need only the shape of their input; the placer puts them, but not `ShapeN`, on the input's device (6.3 B1)."""
SHAPE_OPS = (*SHAPE_READERS, "ShapeN")
"""Ops that need only the shapes of their inputs."""
WHOLE_SHAPE_OPS = ("ShapeN", "VariableShape")
"""Ops whose shapes TensorFlow uses only as a whole, not their single dimensions."""
JOINS = ("Pack", "Concat", "ConcatV2")
"""Ops that concatenate tensors; known parts of a shape stay known through them."""
PARTIAL_SHAPE_OPS = frozenset((*JOINS, "StridedSlice", "Cast"))
"""Ops through which shape inference tracks partly known shapes."""
STATIC_PART_OPS = PARTIAL_SHAPE_OPS - {"Pack", "Cast"}
"""Ops of whose inputs TensorFlow reads static shapes before values."""
PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
"""Ops with an attr `shape` that a fed tensor must fit."""
UNFED_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
"""Placeholders without a default. A fed one does not run: nodes with a control edge from it wait for the fed value."""

# --- sends and receives ---------------------------------------------------------------------------------------------

SENDS = ("_Send", "_HostSend")
"""Ops that send a tensor to another partition, from device memory or host memory (8.6)."""
RECEIVES = ("_Recv", "_HostRecv")
"""Ops that receive a tensor from another partition, into device memory or host memory."""
HOST_TRANSFERS = ("_HostSend", "_HostRecv")
"""Ends of a transfer that are in host memory."""
WITHOUT_STATE = frozenset(
    (*FUNCTION_ENDS, *SENDS, *RECEIVES, "Assert", "Print", "PrintV2", "StatefulPartitionedCall", "If", "While", "Case", "For")
)
"""Ops marked as stateful that keep no state between runs."""

# --- resources and variants -----------------------------------------------------------------------------------------

FREE_OF_RESOURCES = frozenset(
    (
        *("IdentityN", "DeleteMultiDeviceIterator", *CALLS),
        *("ChooseFastestBranchDataset", "ExperimentalChooseFastestDataset"),
        *(
            "GroupByReducerDataset",
            "GroupByWindowDataset",
            "MapAndBatchDataset",
            "MapDataset",
            "ScanDataset",
            "TakeWhileDataset",
        ),
        *("ExperimentalGroupByReducerDataset", "ExperimentalGroupByWindowDataset", "ExperimentalMapAndBatchDataset"),
        *("ExperimentalMapDataset", "ExperimentalScanDataset", "ExperimentalTakeWhileDataset"),
        *("FilterDataset", "FlatMapDataset", "GeneratorDataset", "InterleaveDataset", "ReduceDataset", "ParallelFilterDataset"),
        *("ParallelMapDataset", "ParallelMapDatasetV2", "ExperimentalParallelInterleaveDataset", "ParallelInterleaveDataset"),
        *("LegacyParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3"),
        "ParallelInterleaveDatasetV4",
    )
)
"""Ops that may be on another device than the resources they read: they only pass the resources to a function (5.6)."""
TENSOR_LISTS = frozenset(
    (
        *("EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListGetItem", "TensorListSetItem"),
        *("TensorListConcat", "TensorListConcatLists", "TensorListConcatV2", "TensorListGather", "TensorListStack"),
        *("TensorListPopBack", "TensorListPushBack", "TensorListPushBackBatch", "TensorListSplit"),
        *("TensorListScatter", "TensorListScatterIntoExistingList", "TensorListScatterV2"),
    )
)
"""Ops whose attr `element_dtype` is the element type of their variants (5.12)."""
KEEPING_FULL_TYPE = frozenset((*IDENTITIES, *FORWARDING_CONTROL_FLOW))
"""Ops whose outputs have the full type of their inputs (5.12)."""
WITHOUT_HOST_MEMORY = frozenset(("_Retval", *CALLS, *KEEPING_FULL_TYPE))
"""Ops whose kernels declare no host memory; such an op must run on the CPU if it reads a host-only variant (5.12)."""
