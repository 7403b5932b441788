"""The measurements as commands: python -m bench train|translate|latency|start|memory|growth ..."""

import signal
import sys
from importlib import import_module

from regard.errors import RegardError

COMMANDS = {
    "train": "target tokens a second of training, beside the peers",
    "train_gpu": "training on a GPU part by part: kernels, tiles, whole steps, captured steps",
    "translate": "sentences and tokens a second of translating a test set, beside the peers",
    "translate_gpu": "the same on a GPU, ids to ids, beside Hugging Face at its best batch size",
    "gpt_gpu": "training GPT and completing prompts on a GPU, beside the peers",
    "bert_gpu": "training BERT on a GPU, beside our GPT and Hugging Face's BERT",
    "vit_gpu": "training ViT and Swin on a GPU, beside Hugging Face",
    "latency": "milliseconds for one sentence at a time, beside the peers",
    "start": "seconds and memory from an empty process to the first translation, beside the peers",
    "memory": "peak memory of training and translating, and of training on millions of pairs",
    "growth": "how time and memory grow with lengths, batches, beams, vocabularies and corpora",
    "alignments": "alignment error rates of every way to read links out of two runs",
    "browser": "whether transformers.js in Chromium translates as we do",
    "doctor": "what regard doctor finds in corpora that are damaged on purpose",
    "flips": "whether damaged files of runs and exports are found, and change no answer",
    "fibonacci": "test errors of the lectures' recurrent network, with and without attention",
    "paper_flops": "operations of training the systems of the Transformer paper, in their sizes",
    "files_entered": "how many files a training step, a translation and a request go through",
    "busy": "how fast a training is beside other busy processes, by how its threads wait",
    "bulk": "whether regard bulk loses a line while it is killed, and what Ray costs",
    "ray_serve": "whether Ray Serve loses an answer while replicas are killed and updated",
    "runtimes": "whether transformers, onnxruntime and CTranslate2 write what we do, and how fast",
    "ranks": "training in two processes against one; and what is left of it when they are killed",
    "sizes": "parameters of the models of recipes, sizes and digests of their corpora",
    "serve": "how many requests a server answers in a second, and whether rightly",
    "stops": "what the rules by which a beam stops give and cost, in both engines",
    "tags": "how many tags of a document come to stand at the words they belong to",
    "planted_faults": "whether the tests notice faults that are planted on purpose",
    "import_fuzz": "whether runs of random models of every family answer as transformers does",
    "versions": "whether the lowest and the newest versions of pyproject.toml work",
    "recorded_outputs": "the answers of commands and servers, to compare two trees byte for byte",
    "windows": "what attention through a window costs, in time and memory",
}
"""Name -> what it measures; the module of that name has the command."""


def main() -> int:
    """Run the command that is named first; 1 and a message for what a user can mend."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(__doc__ or "")
        print("\n".join(f"  {command:<14} {what}" for command, what in COMMANDS.items()))
        print("\nEach answers --help. What they print is what docs/performance.md has been told.")
        return 0
    if name not in COMMANDS:
        print(f"error: no such measurement: {name}; there are {', '.join(COMMANDS)}")
        return 2
    sys.argv = [f"python -m bench {name}", *sys.argv[2:]]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt: tell what is known
    try:
        return import_module(f"bench.{name}").main() or 0
    except RegardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted before anything was known", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
