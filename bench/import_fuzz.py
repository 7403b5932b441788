"""Random models of each importable family: does a run write what `transformers` writes?

    python -m bench import_fuzz [--family NAME ...] [--models N] [--seed N] [--only NUMBER]

The settings of each model are drawn from the tables of `fuzz_folders.py`. It is imported, and used
there and here as users do, in float32. Compared are the tokens of thirty odd texts, the logits of
all positions, and what both answer: by the search of the folder, greedily and by a beam. Up to 30%
of a family's models may be refused, in one line that names a drawn setting, or answer otherwise as
`regard import` said: a difference is told only if it disappears once `transformers` is asked
without the settings that the notes name. Any other is silent, and the exit status is 1.
"""

import argparse
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from PIL import Image

from bench.fuzz_folders import FAMILIES, FuzzedModel, save_model
from bench.report import console
from regard import load
from regard.batching.collate import pad, pad_source
from regard.errors import RegardError
from regard.exchange.huggingface.translators.generation import NOT_SEARCHED
from regard.pipelines.exchange.import_run import import_folder
from regard.tasks.masked.masked_text import read_masked_text
from regard.tasks.translation.pipeline import Translator
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.types import Padded

TOLERANCE = 1e-4  # of logits and scores, for each unit of the largest above 1
MAX_REFUSED = 0.3
NEW_TOKENS = 8  # of a continuation
TEXTS = (
    "The cat sat on the mat.",
    "the dog ran away from the house",
    "  two  spaces,   at its ends too  ",
    "\ta\ttab and\u00a0a no-break\u3000space ",
    "HELLO World, PARIS is the Capital",
    "élève naïve ÅNGSTRÖM İstanbul ß ẞ",
    "👩\u200d👧 🇩🇪 😀 a 😀b",
    "漢字 かな 한국어 עברית العربية",
    "control \x01 \x07 \x7f \x1b[0m end",
    "line one\nline two\r\nline three",
    "e\u0301 ﬁ ² Å ℌ ½",
    "zero\u200bwidth \ufeff bom \u2060",
    "▁ ## Ġ <0x0A> </s",
    "don't we're I'll 1,234.5 $5 50%",
    "a",
    " ",
    ".",
    "!!!???...",
    "cat cats Cat CAT concat cat.",
    " cat <x> Hello<x>World <x>",
    "Hello  Hello hello",
    "https://a.b/c?d=e&f @x #y",
    "“quotes” ‘and’ „more“ … – —",
    "x" * 40,
    "Jane visite l'Afrique en septembre et elle parle à ses amis.",
    "eine Katze saß auf der Matte und der Hund lief aus dem Haus",
    "9 8 7 6 5 4 3 2 1 0",
    "( a ) [ b ] { c } < d >",
    "ﷺ ﹏ ① Ⅳ ™",
    "The cat sat on the mat, and the dog ran away. " * 2,
    "ends in space ",
    "a <pad> b [PAD] </s> c",
    "\n",
)
SHORT_TEXTS = (TEXTS[0], TEXTS[2], TEXTS[4], TEXTS[6], TEXTS[8], TEXTS[19])
PICTURES = ((16, 16), (32, 32), (20, 33), (7, 5), (64, 48))


Options = Mapping[str, Any]
"""Options of `generate`."""


@dataclass
class Outcome:
    """What became of a model."""

    number: int
    refused: str | None = None
    named: bool = True  # whether a refusal names a drawn setting
    told: tuple[str, ...] = ()
    told_answers: int = 0  # which differ, but only by what `import` told
    compared: int = 0  # texts or pictures
    left_out: int = 0  # those that `transformers` cannot compute itself
    differences: list[str] = field(default_factory=list)


def run_model(name: str, seed: int, number: int, texts: Sequence[str], place: Path) -> Outcome:
    """Save a model, import it, and compare."""
    outcome = Outcome(number)
    fuzzed = save_model(name, seed, number, place / "there")
    try:
        languages = fuzzed.languages or None
        made = import_folder(fuzzed.folder, place / "here", languages=languages)
    except RegardError as error:
        outcome.refused = str(error).replace(str(fuzzed.folder), "FOLDER").replace(str(place), "")
        outcome.named = names_a_setting(outcome.refused, fuzzed)
        return outcome
    outcome.told = made.report.notes
    compare = COMPARE[fuzzed.family.kind]
    for difference in compare(fuzzed, place / "here", texts, outcome):
        outcome.differences.append(difference)
    return outcome


# -- comparisons --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """A model there and here."""

    model: Any
    tokenizer: Any
    ours: Any
    told: "Told"

    @classmethod
    def load(
        cls, auto: str, fuzzed: FuzzedModel, run: Path, notes: Sequence[str] = (), **options: Any
    ) -> "Sides":
        kind = getattr(transformers, auto)
        model = kind.from_pretrained(fuzzed.folder, dtype=torch.float32, **options).eval()
        ours = load(run, device="cpu")
        return cls(model, load_tokenizer(fuzzed), ours, Told.read(notes, ours))

    def generate(
        self, texts: Sequence[list[int]], told: "Told | None" = None, **options: Any
    ) -> list[list[int]]:
        """The tokens of their answers, without what was `told` if that is given.

        Texts in a batch are padded where their documentation says: the prompts on the left.
        """
        own, longest = self.model.generation_config, max(map(len, texts))
        prompted = not self.model.config.is_encoder_decoder
        padded, masks, room = list[list[int]](), list[list[int]](), list[int]()
        for ids in texts:
            pad = [0] * (longest - len(ids))
            real = [1] * len(ids)
            padded.append([*pad, *ids] if prompted else [*ids, *pad])
            masks.append([*pad, *real] if prompted else [*real, *pad])
            room.append(len(pad) if prompted else 0)
        if told is not None:
            self.model.generation_config = deepcopy(own)
            for name, value in told.options.items():
                setattr(self.model.generation_config, name, value)
        try:
            with torch.inference_mode():
                made = self.model.generate(
                    input_ids=torch.tensor(padded),
                    attention_mask=torch.tensor(masks),
                    **options,
                    return_dict_in_generate=True,
                ).sequences
        finally:
            self.model.generation_config = own
        rows = made[:: len(made) // len(texts)].tolist()
        return [row[count:] for row, count in zip(rows, room, strict=True)]

    def decode(self, ids: Sequence[int], told: "Told | None" = None) -> str:
        """The text of their answer."""
        options = told.decoding if told else {}
        text: str = self.tokenizer.decode(torch.tensor(ids), skip_special_tokens=True, **options)
        return text


@dataclass(frozen=True)
class Told:
    """What `regard import` said that a run leaves out, in terms of `transformers`."""

    options: dict[str, Any]  # of `generate`
    decoding: dict[str, Any]  # of its tokenizer
    is_cut: bool  # nothing is put behind a text

    def __bool__(self) -> bool:
        return bool(self.options or self.decoding)

    @classmethod
    def read(cls, notes: Sequence[str], ours: Any) -> "Told":
        text, spaces = "\n".join(notes), "clean_up_tokenization_spaces"
        names = re.findall(r"^(\w+) is .* which is not supported here", text, re.MULTILINE)
        options: dict[str, Any] = {name: WITHOUT_EFFECT.get(name) for name in names}
        if "answers never contain" in text or {*names} & {"suppress_tokens", "bad_words_ids"}:
            options |= {"suppress_tokens": unwritten(ours) or None, "bad_words_ids": None}
        if "eos_token_id is also" in text:
            options["eos_token_id"] = vocabulary_of(ours).special[EOS]
        decoding = {spaces: False} if f"{spaces} is true" in text else {}
        return cls(options, decoding, "behind a text (add_eos_token)" in text)


WITHOUT_EFFECT = {**NOT_SEARCHED, "do_sample": False, "no_repeat_ngram_size": 0, "min_length": 0}


def vocabulary_of(ours: Any) -> Any:
    """The map of the vocabulary that a pipeline answers in."""
    tokenizer = ours.target if isinstance(ours, Translator) else ours.tokenizer
    return tokenizer.vocabulary_map


def unwritten(ours: Any) -> list[int]:
    """Their ids of the tokens that our answers never contain."""
    never = (PAD, BOS) if ours.settings.rules.allow_unknown else (PAD, BOS, UNK)
    special = vocabulary_of(ours).special
    return [special[i] for i in never if special[i] is not None]


def load_tokenizer(fuzzed: FuzzedModel) -> Any:
    """Their tokenizer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Marian's tokenizer recommends a package
        return transformers.AutoTokenizer.from_pretrained(fuzzed.folder)


def compare_masked(
    fuzzed: FuzzedModel, run: Path, texts: Sequence[str], outcome: Outcome
) -> Iterator[str]:
    """Tokens, and the logits of all positions."""
    auto = fuzzed.drawn["config"]["architectures"][0]
    sides = Sides.load(auto, fuzzed, run)
    filler, mask = sides.ours, sides.tokenizer.mask_token
    ours, limit = filler.tokenizer.vocabulary_map, filler.model.max_length
    for number, text in enumerate(texts):
        place = len(text) // 2
        masked = f"{text[:place]}{mask}{text[place:]}" if number % 2 else f"{text} {mask} ."
        parts = [masked.strip(), "a b."] if number % 5 == 0 else [masked]
        given = sides.tokenizer(*parts, return_tensors="pt", truncation=False)
        if given["input_ids"].shape[1] > limit:
            outcome.left_out += 1
            continue
        try:
            with torch.inference_mode():
                found = sides.model(**given, return_dict=True)
        except IndexError:  # it has no second segment
            outcome.left_out += 1
            continue
        outcome.compared += 1
        theirs = found.prediction_logits if "prediction_logits" in found else found.logits
        read = read_masked_text(parts, filler.tokenizer, filler.mask, limit)
        spelled = ours.to_theirs(read.ids)
        if spelled != given["input_ids"][0].tolist():
            yield different_tokens(masked, sides.tokenizer, given["input_ids"][0].tolist(), spelled)
            continue
        padded, segments = pad([read.ids]), pad([read.segments])
        with torch.inference_mode():
            logits = filler.model(Padded(padded.ids, padded.mask, None, segments.ids))[0]
        yield from different_logits(masked, in_their_order(logits, ours), theirs[0])
        probabilities = theirs[0].double().softmax(-1)
        filled = filler(" ||| ".join(parts))
        for mine, where in zip(filled.masks, read.places, strict=True):
            best = mine.tokens[0]
            likeliest = float(probabilities[where.position][ours.to_theirs(text_ids(ours))].max())
            if abs(best.probability - likeliest) > TOLERANCE:
                yield f"{masked!r}: fills {best} where theirs is {likeliest:.6f}"


def text_ids(vocabulary: Any) -> range:
    """Our ids of tokens that are text."""
    return range(4, vocabulary.size)


def compare_classes(
    fuzzed: FuzzedModel, run: Path, texts: Sequence[str], outcome: Outcome
) -> Iterator[str]:
    """The probabilities of all labels, of texts and of pairs."""
    sides = Sides.load("AutoModelForSequenceClassification", fuzzed, run)
    names = sides.model.config.id2label
    pairs = [f"{first}|||{second}" for first, second in pairwise(texts[:4])]
    for text in [*texts, *pairs]:
        parts = [part.strip() for part in text.split("|||")] if "|||" in text else [text]
        given = sides.tokenizer(*parts, return_tensors="pt", truncation=False)
        try:
            with torch.inference_mode():
                logits = sides.model(**given, return_dict=True).logits[0]
        except (IndexError, RuntimeError):  # longer than its positions
            outcome.left_out += 1
            continue
        outcome.compared += 1
        theirs = {names[n]: p for n, p in enumerate(logits.double().softmax(-1).tolist())}
        ours = {one.label: one.probability for one in sides.ours(text).labels}
        if worst := [n for n in theirs if abs(theirs[n] - ours.get(n, 2)) > TOLERANCE]:
            yield f"{text!r}: {worst[0]} {theirs[worst[0]]:.6f} there, {ours.get(worst[0])} here"


def compare_pictures(
    fuzzed: FuzzedModel, run: Path, texts: Sequence[str], outcome: Outcome
) -> Iterator[str]:
    """The probabilities of all classes of pictures of several sizes."""
    sides_model = transformers.AutoModelForImageClassification.from_pretrained(
        fuzzed.folder, dtype=torch.float32
    ).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(fuzzed.folder)
    ours, names = load(run, device="cpu"), sides_model.config.id2label
    exact = (processor.size["width"], processor.size["height"])
    for number, size in enumerate([exact] if not processor.do_resize else [exact, *PICTURES]):
        rng = torch.Generator().manual_seed(number)
        pixels = torch.randint(256, (*size[::-1], 3), generator=rng).byte().numpy()
        image = Image.fromarray(pixels)
        path = fuzzed.folder / f"{number}.png"
        image.save(path)
        given = processor(image, return_tensors="pt")
        with torch.inference_mode():
            logits = sides_model(**given, return_dict=True).logits[0]
        outcome.compared += 1
        theirs = {names[n]: p for n, p in enumerate(logits.double().softmax(-1).tolist())}
        found = {one.label: one.probability for one in ours(str(path)).labels}
        if worst := [n for n in theirs if abs(theirs[n] - found.get(n, 2)) > TOLERANCE]:
            yield f"{size}: {worst[0]} {theirs[worst[0]]:.6f} there, {found.get(worst[0])} here"


def compare_translations(
    fuzzed: FuzzedModel, run: Path, texts: Sequence[str], outcome: Outcome
) -> Iterator[str]:
    """Tokens, logits of given targets, and translations by the folder's search and greedily."""
    sides = Sides.load("AutoModelForSeq2SeqLM", fuzzed, run, outcome.told)
    translator, tokenizer = sides.ours, sides.tokenizer
    source, target = translator.sources[0].vocabulary_map, translator.target.vocabulary_map
    forced = forced_language(fuzzed, tokenizer)
    longest, read = sides.model.config.max_position_embeddings, dict[str, list[int]]()
    for number, text in enumerate(texts):
        given = tokenizer(text, return_tensors="pt")
        theirs = given["input_ids"][0].tolist()
        if len(theirs) > longest or not text.strip():  # blank texts stay blank, as import says
            outcome.left_out += 1
            continue
        outcome.compared += 1
        own = [*translator.sources[0].encode([text])[0], EOS]
        if source.to_theirs(own) != theirs:
            yield different_tokens(text, tokenizer, theirs, source.to_theirs(own))
            continue
        rows = [BOS, *((7 * n + number) % (target.size - 4) + 4 for n in range(9))]
        start = sides.model.config.decoder_start_token_id
        decoder = torch.tensor([[start, *target.to_theirs(rows[1:])]])
        with torch.inference_mode():
            logits = sides.model(**given, decoder_input_ids=decoder, return_dict=True).logits[0]
            mine = translator.model(pad_source([own[:-1]]), pad([rows]))[0]
        yield from different_logits(text, in_their_order(mine, target), logits)
        read[text] = theirs

    def answer(some: Sequence[list[int]], told: Told | None, options: Options) -> list[str]:
        found = sides.generate(some, told, **forced, **options)
        answers = (sides.decode(ids[1:], told) for ids in found)  # without what they start from
        return [" ".join(one.replace("\t", " ").splitlines()) for one in answers]  # one line here

    def ask(texts: Sequence[str], **options: int) -> list[str]:
        settings = translator.search_settings(**options) if options else None
        return [one.text for one in translator.translate(texts, settings)]

    yield from different_answers(sides, read, answer, ask, outcome)


def different_answers(
    sides: Sides,
    read: Mapping[str, list[int]],
    answer: Callable[[Sequence[list[int]], Told | None, Options], list[str]],
    ask: Callable[..., list[str]],
    outcome: Outcome,
) -> Iterator[str]:
    """How answers to texts, which are `read` as theirs, differ by each search.

    A batch is answered first; a text whose answers differ there is answered alone by both sides,
    as sums are rounded otherwise in a batch.
    """
    texts = [*read]
    for name, theirs, ours in searches(sides) if texts else ():
        try:
            together: Sequence[str | None] = answer([*read.values()], None, theirs)
        except (IndexError, RuntimeError, ValueError):
            together = [None] * len(texts)
        for text, here, first in zip(texts, ask(texts, **ours), together, strict=True):
            if here == first:
                continue
            try:
                [there] = answer([read[text]], None, theirs)
                [without] = answer([read[text]], sides.told, theirs) if sides.told else [None]
            except (IndexError, RuntimeError, ValueError):  # an id that its tokenizer lacks
                outcome.left_out += 1
                continue
            if there != here:
                [here] = ask([text], **ours)
            if here not in (there, without):
                yield f"{text!r}, {name}: {there!r} there, {here!r} here"
            elif there != here:
                outcome.told_answers += 1


def searches(sides: Sides) -> Iterator[tuple[str, dict[str, Any], dict[str, int]]]:
    """The searches to compare: options of theirs, and of ours."""
    own = sides.ours.settings
    if own.sampling is None:
        yield "by its search", {}, {}
    plain = {"num_return_sequences": 1, "do_sample": False}
    if own.sampling is not None or own.beam.size > 1:
        yield "greedily", {"num_beams": 1, **plain}, {"beam": 1, "n_best": 1}
    else:
        yield "by a beam", {"num_beams": 3, **plain}, {"beam": 3, "n_best": 1}


def forced_language(fuzzed: FuzzedModel, tokenizer: Any) -> dict[str, Any]:
    """The option of `generate` that asks for a language, as their documentation has it."""
    if not fuzzed.languages:
        return {}
    code = fuzzed.languages["target"]
    names = [name for name in (f"__{code}__", code) if name in tokenizer.get_vocab()]
    return {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(names[0])}


def compare_continuations(
    fuzzed: FuzzedModel, run: Path, texts: Sequence[str], outcome: Outcome
) -> Iterator[str]:
    """Tokens, logits, and continuations by the folder's search and greedily."""
    sides = Sides.load("AutoModelForCausalLM", fuzzed, run, outcome.told)
    completer, tokenizer = sides.ours, sides.tokenizer
    vocabulary = completer.tokenizer.vocabulary_map
    longest, read = sides.model.config.max_position_embeddings - NEW_TOKENS, dict[str, list[int]]()
    for text in texts:
        given = tokenizer(text, return_tensors="pt")
        given.pop("token_type_ids", None)
        theirs = given["input_ids"][0].tolist()
        if not 0 < len(theirs) <= longest:
            outcome.left_out += 1
            continue
        outcome.compared += 1
        own = [*(completer.tokenizer.text_prefix or ()), *completer.tokenizer.encode([text])[0]]
        if sides.told.is_cut:
            outcome.told_answers += len(theirs) > len(own)
            given = {name: value[:, : len(own)] for name, value in given.items()}
            theirs = theirs[: len(own)]
        if vocabulary.to_theirs(own) != theirs:
            yield different_tokens(text, tokenizer, theirs, vocabulary.to_theirs(own))
            continue
        with torch.inference_mode():
            logits = sides.model(**given, return_dict=True).logits[0]
            empty = completer.model.encode(pad([[]], least=0))
            states = completer.model.decode(pad([own]), empty).features
            mine = completer.model.logits(states)[0]
        yield from different_logits(text, in_their_order(mine, vocabulary), logits)
        read[text] = theirs

    def answer(some: Sequence[list[int]], told: Told | None, options: Options) -> list[str]:
        found = sides.generate(some, told, **options, max_new_tokens=NEW_TOKENS)
        return [
            sides.decode(whole, told)[len(sides.decode(ids, told)) :]
            for ids, whole in zip(some, found, strict=True)
        ]

    def ask(texts: Sequence[str], **options: int) -> list[str]:
        answers = completer.complete(texts, max_tokens=NEW_TOKENS, **options)
        return [one.continuations[0].text for one in answers]

    yield from different_answers(sides, read, answer, ask, outcome)


COMPARE: dict[str, Callable[..., Iterator[str]]] = {
    "translation": compare_translations,
    "continuation": compare_continuations,
    "masked": compare_masked,
    "classes": compare_classes,
    "picture": compare_pictures,
}
"""By what models of a family answer."""


def in_their_order(logits: torch.Tensor, vocabulary: Any) -> torch.Tensor:
    """Our logits (T, V) with their columns."""
    return logits[:, list(vocabulary.ours)]


def different_logits(text: str, ours: torch.Tensor, theirs: torch.Tensor) -> Iterator[str]:
    if ours.shape != theirs.shape:
        yield f"{text!r}: logits of {tuple(theirs.shape)} there, {tuple(ours.shape)} here"
        return
    worst = float((ours - theirs).abs().max())
    if not worst <= TOLERANCE * max(1.0, float(theirs.abs().max())):
        yield f"{text!r}: logits differ by {worst:.3g}"


def different_tokens(text: str, tokenizer: Any, theirs: list[int], ours: list[int]) -> str:
    there, here = (tokenizer.convert_ids_to_tokens(ids) for ids in (theirs, ours))
    return f"{text!r}: read as {there} there, {here} here"


# -- report -------------------------------------------------------------------------------------


def names_a_setting(refusal: str, fuzzed: FuzzedModel) -> bool:
    """Whether a refusal is a line that names a drawn setting."""
    drawn = {name for settings in fuzzed.drawn.values() for name in settings}
    drawn |= {"rope_type", "rope_scaling", "type", "eos_token_id", "pad_token_id"}
    drawn |= {"decoder_start_token_id"}
    return "\n" not in refusal and any(re.search(rf"\b{name}\b", refusal) for name in drawn)


def report(name: str, outcomes: Sequence[Outcome], shown: int) -> bool:
    """Print what became of a family's models; whether all is well."""
    refused = [one for one in outcomes if one.refused]
    silent = [one for one in outcomes if one.differences]
    told = [one for one in outcomes if one.told_answers and not one.differences]
    texts = sum(one.compared for one in outcomes)
    left_out = sum(one.left_out for one in outcomes)
    share = (len(refused) + len(told)) / max(1, len(outcomes))
    equal = len(outcomes) - len(refused) - len(told) - len(silent)
    console.print(
        f"{name}: {len(outcomes)} models, {equal} equal, {len(refused)} refused, {len(told)} "
        f"different as told, {len(silent)} silently different; {texts:,} texts compared, "
        f"{left_out:,} left out: blank, or too long for theirs",
        markup=False,
    )
    for kind in ("draws", "tokenizer_draws", "search"):
        console.print(f"  {kind}: {' '.join(getattr(FAMILIES[name], kind))}", markup=False)
    reasons = Counter(re.sub(r"FOLDER/?|\s+", " ", one.refused or "")[:160] for one in refused)
    for reason, count in reasons.most_common():
        console.print(f"  refused {count}: {reason}", markup=False)
    for one in (one for one in refused if not one.named):
        console.print(f"  UNNAMED {one.number}: {one.refused}", markup=False)
    for one in told:
        notes = "; ".join(note[:70] for note in one.told)
        console.print(f"  told {one.number}: {one.told_answers} answers: {notes}", markup=False)
    for one in silent[:shown]:
        console.print(
            f"  SILENT {one.number}: {len(one.differences)}, such as {one.differences[0][:400]}"
            f" | {'; '.join(one.told)[:300]}",
            markup=False,
        )
    return not silent and all(one.named for one in refused) and share <= MAX_REFUSED


def main() -> int:
    """Draw, import, compare and report."""
    parser = argparse.ArgumentParser(prog="python -m bench import_fuzz", description=__doc__)
    parser.add_argument("--family", nargs="+", choices=[*FAMILIES], default=[*FAMILIES])
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one model, which is shown in full")
    parser.add_argument("--short", action="store_true", help="six texts a model")
    parser.add_argument("--shown", type=int, default=8, help="models with differences to print")
    given = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    texts, good = SHORT_TEXTS if given.short else TEXTS, True
    for name in given.family:
        started, outcomes = time.perf_counter(), []
        numbers = range(given.models) if given.only is None else [given.only]
        for number in numbers:
            with TemporaryDirectory() as folder:
                outcomes.append(run_model(name, given.seed, number, texts, Path(folder)))
                if given.only is not None:
                    show_model(name, given.seed, number, outcomes[0], Path(folder))
        good &= report(name, outcomes, given.shown)
        console.print(f"  {time.perf_counter() - started:.0f} s", markup=False)
    return 0 if good else 1


def show_model(name: str, seed: int, number: int, outcome: Outcome, place: Path) -> None:
    """Print what was drawn for a model, and all its differences."""
    drawn = save_model(name, seed, number, place / "again").drawn
    for file, settings in drawn.items():
        console.print(f"{file}: {settings}", markup=False)
    console.print("\n".join(outcome.differences), markup=False)
