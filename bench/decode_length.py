"""How the time of decoding grows with the length of the output.

    python -m bench decode_length [--sentences N] [--beam N] [--source N] [--repeat N]

Decodes outputs of 250, 500 and 1,000 tokens from sources of one length with models of like size,
which are fresh: how long a step takes does not depend on what they have learned. Prints the best
time of several and its ratio to that of 250 tokens. Linear time is a ratio of 4 at 1,000: ByteNet
and ConvS2S hold a window of the past, Luong's model a state. The Transformer looks back at
everything it has said. On one thread, in seconds of the processor: what else runs on the machine
changes them little.
"""

import argparse
import time

import torch

from regard.decoding.batch_search import search
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.models.build import ModelSettings, build_model
from regard.models.contracts import AnyModel
from regard.models.translation.bytenet import ByteNetSettings
from regard.models.translation.convs2s import ConvS2SSettings
from regard.models.translation.luong import LuongSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.types import Padded

VOCABULARY = 8000
LENGTHS = (250, 500, 1000)
MODELS: dict[str, ModelSettings] = {
    "bytenet": ByteNetSettings(encoder_blocks=10, decoder_blocks=10, width=256),
    "convs2s": ConvS2SSettings(encoder_layers=4, decoder_layers=4, width=256),
    "luong": LuongSettings(layers=2, width=256),
    "transformer": TransformerSettings(preset="small"),
}


def decode(model: AnyModel, source: Padded, length: int, beam: int) -> float:
    """Seconds that outputs of `length` tokens take, EOS counted, from encoding to the end."""
    settings = DecodingSettings(
        beam=BeamSettings(size=beam, stop="limit"),
        rules=RuleSettings(
            min_length=length - 1,
            max_length=length,
            max_length_ratio=0.0,
            max_length_offset=length,
        ),
    )
    began = time.process_time()
    with torch.inference_mode():
        state = model.start(model.encode(source))
        search(model, state, source.mask.sum(1), settings)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=4)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--source", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    mask = torch.ones(asked.sentences, asked.source, dtype=torch.bool)
    source = Padded(torch.randint(4, VOCABULARY, mask.shape), mask)
    print(f"{asked.sentences} sources of {asked.source} tokens, beam {asked.beam}")
    for name, settings in MODELS.items():
        model = build_model(settings, VOCABULARY, VOCABULARY, joint=True).eval()
        decode(model, source, 10, asked.beam)
        best = [
            min(decode(model, source, length, asked.beam) for _ in range(asked.repeat))
            for length in LENGTHS
        ]
        parameters = sum(p.numel() for p in model.parameters())
        times = ", ".join(
            f"{length} tokens {seconds:.2f} s ({seconds / best[0]:.2f})"
            for length, seconds in zip(LENGTHS, best, strict=True)
        )
        print(f"{name} ({parameters:,} parameters): {times}", flush=True)
