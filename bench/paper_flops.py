"""Operations of training the systems of Vaswani et al. 2017, Table 2, in the sizes of their papers.

    OMP_NUM_THREADS=1 python -m bench paper_flops

Counted as `regard compare` does, on pairs of 25 tokens, EOS included. No weight is computed with:
tensors are fake, so that a model of any size is counted. A mixture of experts, which looks at
numbers to choose them, is counted with few experts, in memory; only its gates grow with their
number, and evenly. Tokens are steps times tokens of a step: those of the shelf's recipes, which are
ours, and for the Transformer those of its paper. Prints Markdown.
"""

from functools import partial
from typing import NamedTuple

from torch._subclasses.fake_tensor import FakeTensorMode

from bench.paper import STEPS, TOKENS
from regard.batching.collate import collate
from regard.models.build import ModelSettings, build_model
from regard.models.contracts import AnyGenerator
from regard.models.translation.moe import MoeSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.recipes.recipe_files import load_recipe
from regard.tasks.translation.comparison.flops import count_flops
from regard.tasks.translation.needed import require_text_task
from regard.training.loss import batch_loss

SENTENCE = [5] * 24  # EOS is the 25th token
BATCH = collate([SENTENCE], [SENTENCE])
LOSS = partial(batch_loss, smoothing=0.1)
FEW_EXPERTS = 4, 8
BIG_STEPS = 300_000  # of 25,000 tokens, too
VOCABULARIES = {
    "deep-att-paper": 30_000,
    "gnmt-paper": 32_000,
    "bytenet-paper": 300,  # characters
    "convs2s-paper": 40_000,
    "moe-paper": 32_000,
}
TRANSFORMER_VOCABULARY = 37_000


class Cost(NamedTuple):
    """What a model has, and what each target token of its training takes."""

    parameters: float
    flops_per_token: float


def cost(model: AnyGenerator) -> Cost:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Cost(parameters, count_flops(model, LOSS, BATCH) / BATCH.num_labels)


def cost_of(settings: ModelSettings, vocabulary: int) -> Cost:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = build_model(settings, vocabulary, vocabulary, joint=True)
    return cost(model)  # outside of the mode: token ids are real, and what only depends on them


def cost_of_experts(settings: MoeSettings, vocabulary: int) -> Cost:
    """Along the line through two small numbers of experts."""
    found = []
    for count in FEW_EXPERTS:
        experts = settings.experts.model_copy(update={"count": count})
        fewer = settings.model_copy(update={"experts": experts})
        found.append(cost(build_model(fewer, vocabulary, vocabulary, joint=True)))
    first, second = found
    steps = (settings.experts.count - FEW_EXPERTS[0]) / (FEW_EXPERTS[1] - FEW_EXPERTS[0])
    return Cost(*(one + steps * (two - one) for one, two in zip(first, second, strict=True)))


def print_row(name: str, found: Cost, tokens: int) -> None:
    parameters, flops = found
    print(f"| {name} | {parameters / 1e6:,.0f}M | {flops / 1e6:,.0f}M | {tokens / 1e9:.2f}G "
          f"| {flops * tokens:.1e} |")  # fmt: skip


def main() -> None:
    print("| system | parameters | FLOPs a target token | tokens | FLOPs |")
    print("|---|---:|---:|---:|---:|")
    for name, vocabulary in VOCABULARIES.items():
        recipe = require_text_task(load_recipe(name), name)
        model, training = recipe.model, recipe.training
        found = (
            cost_of_experts(model, vocabulary)
            if isinstance(model, MoeSettings)
            else cost_of(model, vocabulary)
        )
        print_row(f"`{name}`", found, training.steps * training.batch_tokens)
    base, big = TransformerSettings(), TransformerSettings(preset="big")
    print_row("Transformer, base", cost_of(base, TRANSFORMER_VOCABULARY), STEPS * TOKENS)
    print_row("Transformer, big", cost_of(big, TRANSFORMER_VOCABULARY), BIG_STEPS * TOKENS)


if __name__ == "__main__":
    main()
