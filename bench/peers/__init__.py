"""Who runs beside us: one file for each, all behind the protocols of `contract`."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, cast

from bench.peers.contract import Peer


class Listed(NamedTuple):
    """What is known of a peer before it is imported."""

    name: str
    package: str
    """What must be importable; it is also the name that pip knows."""


PEERS = {
    "regard": Listed("regard", "regard"),
    "hugging_face": Listed("Hugging Face", "transformers"),
    "opennmt": Listed("CTranslate2", "ctranslate2"),
    "joey": Listed("JoeyNMT", "joeynmt"),
    "torch_transformer": Listed("torch.nn.Transformer", "torch"),
}
"""Modules of this folder."""


def is_here(key: str) -> bool:
    """Whether the peer is installed; importing it would take seconds."""
    return find_spec(PEERS[key].package) is not None


def open_peer(key: str) -> Peer:
    """The peer's own file."""
    return cast(Peer, import_module(f"bench.peers.{key}"))
