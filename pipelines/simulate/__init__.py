"""Months in minutes: the real plan, clocks, budgets, shelves and merge on a web that is only computed."""
