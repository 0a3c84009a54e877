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
# # Content
#
# What is stored, in which languages, and how much of it twice?

# %%
from pipelines.report import content
from pipelines.report.opening import open_lake

lake = open_lake()
f"{lake.root.name} after cycle {lake.cycle}"

# %%
content.plot_types(content.types(lake))

# %%
content.plot_sizes(content.sizes(lake))

# %% [markdown]
# Languages are told from the main texts: `noria extract` first.

# %%
content.plot_speech(content.languages(lake), content.charsets(lake))

# %% [markdown]
# Equal bytes are stored once, in whatever cycle and under whatever URL they come again.

# %%
content.plot_duplicates(content.duplicates(lake))

# %% [markdown]
# Near duplicates differ in bytes, hardly in words: SimHashes within three bits.

# %%
exact, near = content.families(lake), content.near_families(lake)
content.plot_families(exact, near)

# %%
near
