from regard.serving.formats.document import Segment, Segments


def test_parts_are_kept_or_translated():
    document = Segments(
        [Segment("<p>"), Segment("un", says=True), Segment(" "), Segment("deux", says=True)]
    )
    assert document.lines == ["un", "deux"]
    assert document.join(["UN", "DEUX"]) == "<p>UN DEUX"
