import sys

if not sys.flags.safe_path:
    del sys.path[0]  # `python -m` looks in the current folder first, for click too: not ours to run

from kscope.cli.start import main

if __name__ == "__main__":
    main()
