"""Saving a session's state as TensorFlow checkpoints, and restoring it, so that a run can continue later.

`saved_values` converts objects to JSON values and tensors, and `device_state` converts the state of a device.
`session_checkpoints` reads and writes the files of a checkpoint.
"""
