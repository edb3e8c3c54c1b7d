"""Reports for a terminal: `page` the analysis, its parts beside it; `machine` and `listing` machine code."""
