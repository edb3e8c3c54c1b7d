"""What machine code alone proves: one lint, one file, named as the rule whose code and page it shares."""
