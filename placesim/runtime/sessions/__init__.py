"""Sessions, and the values that they return."""
