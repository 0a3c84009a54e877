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
# # The last cycle
#
# What became of every planned URL, how fast did it go, and what held it back?

# %%
from pipelines.report import last_cycle
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %% [markdown]
# Every planned URL ends in one stage; the stages add up to the plan.

# %%
funnel = last_cycle.funnel(lake, lake.cycle)
last_cycle.plot_funnel(funnel)

# %%
funnel

# %%
assert funnel["urls"].sum() == last_cycle.ledger_row(lake, lake.cycle).counts["planned"]

# %%
last_cycle.plot_outcomes(last_cycle.outcomes(lake, lake.cycle))

# %% [markdown]
# Pages a second, and how many hosts were under way. A long thin end means that a few hosts held the cycle back.

# %%
last_cycle.plot_pace(last_cycle.pace(lake, lake.cycle))

# %% [markdown]
# A host is asked one thing at a time, with a pause after each answer.

# %%
last_cycle.plot_slowest_hosts(last_cycle.slowest_hosts(lake, lake.cycle))

# %%
last_cycle.plot_seconds(last_cycle.seconds(lake, lake.cycle))
