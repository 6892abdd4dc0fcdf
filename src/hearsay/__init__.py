"""hearsay: a student that has only heard about your data."""

__version__ = "0.1.0"
