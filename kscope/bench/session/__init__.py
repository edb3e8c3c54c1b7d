"""A whole benchmark from task to result: one run, a sweep with its journal, comparison with an earlier result."""
