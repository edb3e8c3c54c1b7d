"""The bounds of a loop in words, as the engine says them."""

from kscope.engine.code.loop_words import bounds as bounds
