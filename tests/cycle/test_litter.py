"""The garbage collector is as it was when the last fetch of a process has ended."""

from __future__ import annotations

import gc

from pipelines.cycle.litter import THRESHOLDS, collected_rarely


def test_the_last_fetch_of_a_process_to_end_brings_back_what_was():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    first, second = collected_rarely(), collected_rarely()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == THRESHOLDS and gc.get_freeze_count() > frozen
    first.__exit__(None, None, None)
    assert gc.get_threshold() == THRESHOLDS, "another fetch is under way"
    second.__exit__(None, None, None)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)
