"""Explanations for `explain`: reasons for a node's device, edits that change it, and causes of placement errors."""
