"""What a session keeps between steps -> checkpoints of TensorFlow's, and back, so that a run can go on after its end.

- `values` are objects as plain values and tensors, `devices` what a device keeps as such
- `sessions` are the files of one checkpoint, `runs` when a run writes which, and where it goes on
"""
