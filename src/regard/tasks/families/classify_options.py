"""The options and the lines of `regard classify`, of texts and of pictures."""

from collections.abc import Iterator
from functools import partial
from os.path import isfile
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PositiveInt

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.errors import SettingsError
from regard.images.picture_files import ENDINGS
from regard.settings import abbreviate, escape_control, quoted
from regard.tasks.families.options import (
    Positional,
    Reply,
    UseOptions,
    Written,
    named_inputs,
)

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.families.label_pipeline import AnyLabelPipeline, Classification


class ClassifyOptions(UseOptions):
    """Every text gives one line, in order: its likeliest label, a tab and its probability; with
    --best N, the N likeliest labels. An empty text also gives a note on stderr. A pair of texts is
    written `A ||| B`. Probabilities are calibrated on the run's validation data; with --ensemble
    they are the mean over several runs with the same labels.

    Every picture gives the same, after its name if there are several. A folder stands for all
    pictures in it and its subfolders. A picture that cannot be read, or a blank line instead of a
    name, gives an empty label and an error on stderr; the others are still classified, and the exit
    code is 1. Control characters of names and labels are printed as escapes, such as \\t; --json
    has them unchanged.

    Examples:

        regard classify runs/trec6 "How far is it from Denver to Aspen ?"
        regard classify runs/trec6 --best 3 < questions.txt
        regard classify runs/sst2 --file reviews.txt --json > labels.jsonl
        regard classify runs/sst2 --ensemble runs/sst2-gpt "A gem of a film ."
        regard classify runs/cifar10-vit photo.jpg holidays/
    """

    given: Annotated[tuple[str, ...], Positional("[TEXT… | PICTURE…]")] = ()
    """Texts; or picture files or folders. Without any, or for -, the lines of the standard input:
    texts, or names of pictures."""
    file: Annotated[tuple[str, ...], Written(metavar="FILE")] = ()
    """Read lines from a file, also .gz; may be repeated."""
    ensemble: Annotated[tuple[str, ...], Written(metavar="MODEL")] = ()
    """Another model that votes; may be repeated."""
    best: Annotated[PositiveInt, Written("--best", "-k")] = 1
    """Print the N likeliest labels."""

    def replies(self, pipeline: "AnyLabelPipeline") -> Iterator[Reply]:
        yield Reply(notes=pipeline.remarks)
        inputs = named_inputs(self.given or ([] if self.file else [STDIN]))
        inputs += [line for path in self.file for line in read_lines(path, limit="examples")]
        if not pipeline.names_examples:
            yield Reply(notes=[self._check_name(name) for name in self.given if isfile(name)])
        examples = pipeline.find(inputs)
        named = pipeline.names_examples and len(examples) > 1
        for answer in pipeline.stream(examples):
            name = abbreviate(answer.given or repr(""))
            notes = [f"{name}: {message}" for message in answer.notes]
            lines = [self._line(answer, named=named)]
            yield Reply(lines, partial(answer.to_json, self.best), notes, answer.error)

    def _check_name(self, name: str) -> str:
        """The note on a text that names a file, which is not read; an error for a picture."""
        if name.lower().endswith(ENDINGS):
            raise SettingsError(
                f"{name}: a picture, and {self.model} has learned to classify texts; for pictures: "
                f"regard classify RUN {quoted(name)}, with a RUN of `regard train pictures --data "
                "FOLDER`"
            )
        return f"{name}: classified as a text, though a file has this name; for its lines: --file"

    def _line(self, answer: "Classification[Any]", *, named: bool) -> str:
        columns = [escape_control(answer.given)] if named else []
        for one in answer.labels[: self.best]:
            columns += [escape_control(one.label), f"{one.probability:.4f}"]
        return "\t".join(columns if answer.labels else [*columns, ""])
