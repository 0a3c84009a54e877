"""Noria's pipelines; data flows app -> cycle -> config -> net -> rules."""
