"""How a running cycle stands: read from the lake, folded into figures, shown live and to Prometheus."""
