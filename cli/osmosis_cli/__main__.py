"""`python -m osmosis_cli`: the same command as the console script `osmosis`."""

from __future__ import annotations

from osmosis_cli.main import main

if __name__ == "__main__":
    main()
