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
# # Politeness
#
# Was every host left alone for as long as it was due, and why for so long?

# %%
from pipelines.report import politeness
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %% [markdown]
# For each host the tightest gap, from the end of an answer to the next request, against the delay that held then.
# No dot may lie below the line.

# %%
gaps = politeness.gaps(lake)
politeness.plot_gaps(gaps)

# %%
gaps.head(10)

# %%
politeness.plot_slack(politeness.slack(lake))

# %% [markdown]
# The longest wish sets the delay: our floor, robots.txt, ten times the response time, a back-off, a Retry-After.

# %%
politeness.plot_reasons(politeness.reasons(lake))

# %% [markdown]
# Answers that named a Retry-After, and after how long their host was asked again.

# %%
politeness.retry_after(lake)
