"""Structured mutations of every kind of input through the real command line, under limits of time and memory.

    python -m tools.fuzz                                    20,000 inputs over all parsers
    python -m tools.fuzz --parser sqlite --count 500 --seed 7
    python -m tools.fuzz --parser sqlite --seed 7 --only 131 --keep found   the one input, kept with the command

An input is (parser, seed, number) and the fixtures: the same ones give the same bytes and the same command. Whatever
ends in another way than the contract's exit statuses, or leaves anything behind, is a finding (`judge`)."""
