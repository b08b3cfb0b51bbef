"""Lists of tensors: tensor arrays and stacks, which end with the step, and tensor lists, which are values."""
