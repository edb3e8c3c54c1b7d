"""All ranks of a job: what each spends its time on, and who waits for whom."""
