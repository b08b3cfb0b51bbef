"""Functions of ops: arguments and attrs -> tensors and operations."""
