"""Parser of YAML text to trees of entries, with fast paths for long lists."""
