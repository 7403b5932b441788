from regard.serving.formats.document import Part, Parts, says


def test_parts_are_kept_or_translated():
    document = Parts([Part("<p>"), Part("un", says=True), Part(" "), Part("deux", says=True)])
    assert document.lines == ["un", "deux"]
    assert document.join(["UN", "DEUX"]) == "<p>UN DEUX"


def test_letters_say_something():
    assert says("1 a")
    assert says("日")
    assert not says("12:30 — …")
