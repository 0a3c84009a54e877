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
# # Freshness
#
# How old are the copies, how often do pages change, and when are they visited next?

# %%
from pipelines.report import freshness
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %%
freshness.plot_ages(freshness.ages(lake), freshness.dues(lake))

# %% [markdown]
# A revisit that finds the same bytes was too soon; one that finds a change may have been too late.

# %%
freshness.plot_revisits(freshness.revisits(lake), freshness.change_rates(lake))

# %%
freshness.revisits(lake)
