import json

from regard.batching.prefetch import StreamPosition
from regard.training.progress import Progress

BEGUN = Progress(7, StreamPosition(1, 2), best=((0.5, 4),), threads=2, precision="bfloat16")


def test_what_is_written_is_read_again():
    assert Progress.read(json.loads(json.dumps(BEGUN.write()))) == BEGUN


def test_taken_up_as_it_was_left_there_is_nothing_to_note():
    assert BEGUN.resumed_with(2, "bfloat16") == (BEGUN, ())


def test_what_is_other_than_before_is_noted_once():
    progress, notes = BEGUN.resumed_with(4, "float32")
    assert [note.partition(":")[0] for note in notes] == [
        "begun with 2 threads, resumed with 4",
        "begun in bfloat16, resumed in float32",
    ]
    assert progress.resumed_with(4, "float32").notes == ()


def test_a_checkpoint_from_before_precisions_were_kept_is_read():
    old = BEGUN.write()
    del old["precision"]
    assert Progress.read(old).resumed_with(2, "float32").notes == ()
