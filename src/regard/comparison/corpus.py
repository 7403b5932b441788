"""The one corpus that all rows learn from: read and cleaned once, and checked to be one."""

import shutil

from regard.comparison.folder import ComparisonFolder
from regard.comparison.plan import Entry, Plan
from regard.errors import CorpusError
from regard.files import remove_tree, whole_file
from regard.manifest import check
from regard.recipes.prepare import Data, Note, load_data, prepare_data
from regard.recipes.run_folder import PREPARED


def share_corpus(plan: Plan, folder: ComparisonFolder, note: Note) -> Data:
    """The texts of all rows; an error unless they are the same, held-out ones included."""
    first, *others = plan.entries
    new = not folder.corpora.exists()
    shared = _texts(first, folder, note)
    for entry in others:
        data = _texts(entry, folder, note)
        if data.digest != shared.digest:
            if new:
                remove_tree(folder.corpora)
            raise CorpusError(
                f"{first.name} and {entry.name} do not learn from the same corpus: the SHA-256 of "
                f"the one's cleaned texts begins with {shared.digest[:12]}, of the other's with "
                f"{data.digest[:12]}; train all of them on one, with --corpus NAME, --data FILE, "
                "or --source FILE and --target FILE"
            )
    return shared


def _texts(entry: Entry, folder: ComparisonFolder, note: Note) -> Data:
    if entry.run is not None:
        return load_data(folder.run(entry))
    return prepare_data(entry.recipe, folder.corpus(entry.recipe), note)


def give_data(entry: Entry, folder: ComparisonFolder) -> None:
    """Put the shared texts where the row's run will look for them, unless it has them."""
    home = folder.run(entry)
    if (home.data / PREPARED).exists():
        return
    home.claim()
    shared = folder.corpus(entry.recipe).data
    for file in sorted(shared.iterdir(), key=lambda one: one.name == PREPARED):  # which comes last
        check(file)
        with file.open("rb") as content, whole_file(home.data / file.name) as copy:
            shutil.copyfileobj(content, copy)
