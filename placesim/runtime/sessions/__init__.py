"""Sessions, and the results of their steps."""
