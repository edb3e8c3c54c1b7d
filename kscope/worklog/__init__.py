"""The worklog of a repository: every version of a kernel with its report, its figures, and what was promised for it."""
