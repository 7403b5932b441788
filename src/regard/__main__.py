"""The command `regard`, and `python -m regard`: signals are handled while everything else is
imported.
"""

import os
from importlib import import_module

from regard.interruption import exit_on_signals

SPINS = 10_000
"""How often a thread of OpenMP looks for work before it gives up its core. Its default of 300,000
times starves all threads where another process uses a core, as `python -m bench busy` measures."""


def run() -> None:
    """Run the command line."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))  # read when torch is imported
    with exit_on_signals():
        main = import_module("regard.cli.main").main
    main()


if __name__ == "__main__":
    run()
