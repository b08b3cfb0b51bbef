"""YAML text -> trees of entries, with fast paths for long lists."""
