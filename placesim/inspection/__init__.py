"""Inspections of a placement, live or from a report: a snapshot of it, and the packages that answer questions about it."""
