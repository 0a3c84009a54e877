"""One turn of the wheel: open, plan, fetch, sort, gate, seal, merge, commit."""
