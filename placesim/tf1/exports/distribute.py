"""Strategies, some of which `tf.contrib.distribute` has too."""


def _under(prefixes: str, names: str) -> str:
    return " ".join(f"{prefix}distribute.{name}" for prefix in prefixes.split(",") for name in names.split())


_SHARED = "OneDeviceStrategy get_strategy get_replica_context get_loss_reduction"

ROWS = {
    "distribute.strategies": " ".join(
        [
            _under(",contrib.", _SHARED),
            _under("", "Strategy MirroredStrategy"),
            "contrib.distribute.MirroredStrategy=ContribMirroredStrategy",
        ]
    ),
    "distribute.contexts": _under(",contrib.", "has_strategy in_cross_replica_context ReplicaContext"),
    "distribute.packed_reductions": _under("", "NcclAllReduce HierarchicalCopyAllReduce"),
    "distribute.inputs": _under("", "InputContext"),
    "distribute.reductions": _under("", "ReduceOp") + " " + _under(",contrib.", "CrossDeviceOps ReductionToOneDevice"),
}
