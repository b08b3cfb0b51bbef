"""Conditionals, loops, TensorArrays."""

ROWS = {
    "control_flow.conditionals": "cond case switch_case Assert debugging.Assert",
    "control_flow.loops": "while_loop",
    "control_flow.tensor_arrays": "TensorArray",
    "control_flow.functional": "map_fn scan foldl foldr",
    "functions.traced": "function",
    "control_flow.versions": "enable_control_flow_v2 disable_control_flow_v2 control_flow_v2_enabled",
    "types.nest": (
        "nest.flatten nest.is_nested nest.map_structure nest.pack_sequence_as nest.assert_same_structure "
        "contrib.framework.nest.flatten contrib.framework.nest.map_structure contrib.framework.nest.pack_sequence_as "
        "contrib.framework.nest.assert_same_structure contrib.framework.nest.is_sequence=is_nested"
    ),
}
