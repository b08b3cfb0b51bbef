"""Savers and checkpoints."""

ROWS = {
    "saving.saver": "train.Saver",
    "saving.states": (
        "train.latest_checkpoint train.get_checkpoint_state train.update_checkpoint_state train.checkpoint_exists "
        "train.get_checkpoint_mtimes train.remove_checkpoint train.generate_checkpoint_state_proto=generate_state"
    ),
    "saving.readers": (
        "train.load_checkpoint train.load_variable train.list_variables train.NewCheckpointReader=CheckpointReader"
    ),
    "graph_defs.protos": "train.SaverDef=SaverDef train.CheckpointState=CheckpointState",
    "saving.initializing": "train.init_from_checkpoint",
}
