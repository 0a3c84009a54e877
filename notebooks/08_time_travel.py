# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Time travel
#
# What was different after an earlier cycle?

# %%
from pipelines.report import timetravel
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %% [markdown]
# Any committed cycle can be opened as it was, as long as upkeep has kept its files.

# %%
earlier = timetravel.at(lake, max(lake.cycle - 1, 1))

# %%
states = timetravel.states(earlier, lake)
timetravel.plot_states(states, before=earlier.cycle, after=lake.cycle)

# %% [markdown]
# Every URL lies on one shelf: where it lay, and where it went.

# %%
moves = timetravel.moves(earlier, lake)
timetravel.plot_moves(moves, before=earlier.cycle, after=lake.cycle)

# %%
timetravel.plot_grown_hosts(timetravel.grown_hosts(earlier, lake))
