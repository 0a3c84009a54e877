"""Everything has a reason (promise P8): what became of a URL or a host, and why, told from the lake."""
