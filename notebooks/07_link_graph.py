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
# # The link graph
#
# Which hosts do others link to, and which are worth more than they have links?

# %%
from pipelines.report import linkgraph
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %% [markdown]
# PageRank of hosts, by power iteration over a sparse matrix. A link from a host counts once, from however many of
# its pages.

# %%
ranked = linkgraph.pagerank(linkgraph.edges(lake))
linkgraph.plot_top_hosts(ranked)

# %%
linkgraph.plot_in_degrees(linkgraph.in_degrees(ranked), ranked)

# %%
ranked.head(10)
