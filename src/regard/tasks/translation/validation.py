"""Validation of a translator: the loss on held-out pairs, and scores of decoded text."""

from collections.abc import Iterable, Mapping
from itertools import compress, islice

from regard.batching.collate import held_out_batches
from regard.batching.sampler import within_max_tokens
from regard.corpora.corpus import Pair
from regard.corpora.pair_texts import PreparedData
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import EvaluationSettings, choose_tokenizer
from regard.evaluation.metrics import VALIDATION_METRICS, check_available
from regard.evaluation.perplexity import perplexity
from regard.evaluation.scores import ScoreSettings, score
from regard.models.contracts import AnyGenerator
from regard.tasks.contracts import Notify
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.training_inputs import TrainingInputs
from regard.text.preprocess import encode_sources
from regard.training.loop import Validate

VALIDATION_BATCH_TOKENS = 8192  # positions in a batch of validation


def with_bleu_tokenizer(
    recipe: TranslationRecipe, data: PreparedData, note: Notify
) -> TranslationRecipe:
    """The recipe with the tokenizer of BLEU, GLEU and TER."""
    tokenize = recipe.evaluation.tokenize
    if tokenize == "auto":
        references = [pair.target for pair in data.read("valid")]
        tokenize, reason = choose_tokenizer(data.languages[1], references)
        if reason:
            note(f"BLEU, GLEU and TER are counted with tok:{tokenize}, chosen by {reason}")
    check_available(tokenize)
    return recipe.model_copy(update={"evaluation": EvaluationSettings(tokenize=tokenize)})


def position_limit(model: AnyGenerator) -> int | None:
    """The most tokens, without EOS or BOS, that a model has positions for; None: no limit."""
    return None if model.max_length is None else model.max_length - 1


def check_max_positions(model: AnyGenerator, inputs: TrainingInputs, note: Notify) -> None:
    """Raise an error if a training sentence is longer than the model's learned positions allow;
    validation pairs that are too long are left out, and counted in a note.
    """
    limit = position_limit(model)
    if limit is None:
        return
    longest = max(int(side.max()) for side in (inputs.fitting.source, inputs.fitting.target))
    longest += 1  # with EOS or BOS
    if longest > limit + 1:
        raise SettingsError(
            f"a sentence has {longest} tokens, and the model has positions for {limit + 1}: "
            "raise model.max_positions, or lower training.max_tokens"
        )
    fit = within_max_tokens(inputs.valid.lengths(), limit)
    if not fit.any():
        raise SettingsError(
            f"none of the {len(fit)} validation pairs has at most {limit} tokens on "
            "both sides, for which the model has positions: raise model.max_positions, or give "
            "shorter ones with --valid"
        )
    if not fit.all():
        note(
            f"validation leaves out {len(fit) - fit.sum():,} of {len(fit):,} pairs, with more than "
            f"the {limit} tokens for which the model has positions"
        )


def greedy_search(rules: RuleSettings) -> DecodingSettings:
    """The search settings of validation: greedy. The recipe's own search is for the final
    scores.
    """
    limits = {name: value for name, value in rules if name.startswith("max_length")}
    return DecodingSettings(beam=BeamSettings(size=1), rules=RuleSettings(**limits))


def build_validation(
    recipe: TranslationRecipe, inputs: TrainingInputs, *, max_tokens: int | None = None
) -> Validate:
    """A function that scores a model: the loss on all validation pairs with at most `max_tokens` on
    each side, and metrics on some of them.
    """
    source, target = inputs.tokenizers
    read: Iterable[Pair] = inputs.data.read("valid")
    if max_tokens is not None:
        read = compress(read, within_max_tokens(inputs.valid.lengths(), max_tokens))
    pairs = list(islice(read, recipe.training.validation.sentences))
    limit = recipe.corpus.max_source_tokens
    ids = encode_sources(source, [pair.source for pair in pairs], limit)
    references = [pair.target for pair in pairs]
    decoding = greedy_search(recipe.decoding.rules)
    score_settings = ScoreSettings(
        metrics=VALIDATION_METRICS,
        tokenize=recipe.evaluation.tokenize,
        language=inputs.data.languages[1],
        resamples=0,
        warn=False,  # not at every validation
    )

    def validate(model: AnyGenerator) -> Mapping[str, float]:
        batches = held_out_batches(
            inputs.valid, budget=VALIDATION_BATCH_TOKENS, max_tokens=max_tokens
        )
        measured = perplexity(model, batches)
        answers = search_many([SearchMember(model, ids)], decoding, budget=VALIDATION_BATCH_TOKENS)
        texts = [target.decode(best[0].tokens) for best in answers]
        scores = zip(VALIDATION_METRICS, score(texts, references, score_settings), strict=True)
        numbers = {"loss": measured.loss, "perplexity": measured.value}
        return numbers | {name: metric.value for name, metric in scores}

    return validate
