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
# # The frontier
#
# What waits, for how long, and will the month be long enough?

# %%
from pipelines.report import frontier
from pipelines.report.opening import budget_policy, month, open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %%
frontier.plot_shelves(frontier.shelves(lake))

# %%
frontier.plot_ready(frontier.bands(lake), frontier.waiting(lake))

# %% [markdown]
# Requests that hosts got this month, and what is left of their budgets.

# %%
budgets = frontier.budgets(lake, budget_policy(), month=month(lake))
frontier.plot_budgets(budgets)

# %% [markdown]
# The hosts that will end the month with most URLs not crawled.

# %%
uncrawled = frontier.uncrawled(budgets)
frontier.plot_uncrawled(uncrawled)

# %%
uncrawled
