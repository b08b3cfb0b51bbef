"""Parts of a graph beside its nodes: scopes, collections, and the names of its elements."""
