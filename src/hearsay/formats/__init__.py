"""Formats of files, and nothing about what is in them: private and public files are read by the same code."""
