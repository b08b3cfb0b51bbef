"""Variables: section 4 of the facts."""
