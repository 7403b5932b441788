"""The command `regard`, and `python -m regard`: a signal is heard before all else is imported."""

from importlib import import_module

from regard.interruption import leaving_at_once


def run() -> None:
    """Run the command line."""
    with leaving_at_once():
        main = import_module("regard.cli.main").main
    main()


if __name__ == "__main__":
    run()
