"""Sessions and steps of a placed graph."""
