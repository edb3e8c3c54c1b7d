"""The pages of this repository as one web site (`make docs`)."""
