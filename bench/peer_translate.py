"""One peer translates one line, as a small script of its own would."""

import argparse
import json
import sys
from pathlib import Path

from bench.peers import open_peer
from bench.peers.contract import PeerConfig


def main() -> None:
    """Translate standard input, line by line, with the model that a peer's `export` wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("setup", help="as JSON")
    parser.add_argument("--beam", type=int, default=5)
    asked = parser.parse_args()
    engine = open_peer(asked.peer).open_engine(asked.folder, PeerConfig(**json.loads(asked.setup)))
    for line in sys.stdin:
        print(*engine.translate([line.rstrip("\n")], asked.beam), flush=True)


if __name__ == "__main__":
    main()
