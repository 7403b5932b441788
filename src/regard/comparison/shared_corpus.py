"""The corpus of a comparison: cleaned once, and checked to be the same for all rows."""

import shutil

from regard.atomic_io import atomic_file, remove_tree
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import ComparisonPlan, PlanEntry
from regard.errors import CorpusError
from regard.manifest import check_file
from regard.recipes.prepared_data import Notify, PreparedData, load_data, prepare_data
from regard.recipes.run_folder import PREPARED_FILE


def prepare_shared_corpus(
    plan: ComparisonPlan, folder: ComparisonFolder, note: Notify
) -> PreparedData:
    """The data of all rows; an error unless they are the same, held-out splits included."""
    first, *others = plan.entries
    new = not folder.corpora.exists()
    shared = _row_data(first, folder, note)
    for entry in others:
        data = _row_data(entry, folder, note)
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


def _row_data(entry: PlanEntry, folder: ComparisonFolder, note: Notify) -> PreparedData:
    if entry.run is not None:
        return load_data(folder.run(entry))
    return prepare_data(entry.recipe, folder.corpus(entry.recipe), note)


def copy_shared_corpus(entry: PlanEntry, folder: ComparisonFolder) -> None:
    """Copy the shared data into the row's run, unless it has data."""
    run = folder.run(entry)
    if (run.data / PREPARED_FILE).exists():
        return
    run.create()
    shared = folder.corpus(entry.recipe).data
    # prepared.json comes last: it marks the copy as complete
    for file in sorted(shared.iterdir(), key=lambda file: file.name == PREPARED_FILE):
        check_file(file)
        with file.open("rb") as content, atomic_file(run.data / file.name) as copy:
            shutil.copyfileobj(content, copy)
