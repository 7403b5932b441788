"""The command `regard`, and `python -m regard`: signals are handled while everything else is
imported.
"""

from importlib import import_module

from regard.interruption import exit_on_signals


def run() -> None:
    """Run the command line."""
    with exit_on_signals():
        main = import_module("regard.cli.main").main
    main()


if __name__ == "__main__":
    run()
