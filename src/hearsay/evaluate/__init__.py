"""Measurements. Those that read private hold-out write to internal/ and are not covered by the guarantee."""
