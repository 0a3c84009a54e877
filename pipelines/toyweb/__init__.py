"""A deterministic web on loopback that knows its own truth."""
