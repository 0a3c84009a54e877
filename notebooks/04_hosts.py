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
# # Hosts and domains
#
# Who is in the lake, who fills it, and who fails?

# %%
from pipelines.report import hosts
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %%
hosts.plot_sizes(hosts.sizes(lake))

# %%
hosts.plot_domains(hosts.domains(lake))

# %%
hosts.plot_shares(hosts.shares(lake))

# %%
hosts.plot_health(hosts.health(lake), hosts.robots(lake))

# %%
hosts.plot_errors(hosts.errors(lake))
