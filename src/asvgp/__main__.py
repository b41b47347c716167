"""The command line as ``python -m asvgp``."""

from asvgp.cli import main

if __name__ == "__main__":
    main()
