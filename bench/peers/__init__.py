"""The toolkits that run beside us: a file for each, with the protocols of `contract`."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, cast

from bench.peers.contract import Peer


class PeerPackage(NamedTuple):
    """What is known of a peer before it is imported."""

    name: str
    package: str
    """What must be importable; it is also the name that pip knows."""


PEERS = {
    "regard": PeerPackage("regard", "regard"),
    "hugging_face": PeerPackage("Hugging Face", "transformers"),
    "opennmt": PeerPackage("CTranslate2", "ctranslate2"),
    "joey": PeerPackage("JoeyNMT", "joeynmt"),
    "torch_transformer": PeerPackage("torch.nn.Transformer", "torch"),
}
"""Modules of this folder."""


def is_installed(key: str) -> bool:
    """Whether the peer is installed; importing it would take seconds."""
    return find_spec(PEERS[key].package) is not None


def open_peer(key: str) -> Peer:
    """The peer's module."""
    return cast(Peer, import_module(f"bench.peers.{key}"))
