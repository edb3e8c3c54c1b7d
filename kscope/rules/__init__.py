"""One rule, one file. `kscope.rules.registry` finds them; the docstring of each module is its page."""
