"""Simulated customers and the embedded base model: a corpus anyone can have, no data file."""
