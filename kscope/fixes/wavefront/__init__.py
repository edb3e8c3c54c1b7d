"""Threads of a block that go along a diagonal with a barrier a step: by lanes of a warp, several columns each."""
