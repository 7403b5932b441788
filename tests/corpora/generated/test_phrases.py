from regard.corpora.generated.phrases import NOTHING, arrange, join, say


def texts(words):
    return [word.text for word in words]


def linked(links):
    return {(french.text, english.text) for french, english in links}


def test_without_links_each_word_belongs_to_each():
    phrase = say("attend", "waits for")
    assert linked(phrase.sure) == {("attend", "waits"), ("attend", "for")}
    assert not phrase.loose


def test_links_are_sure_or_loose():
    phrase = say("la semaine prochaine", "next week", "0?1 1-1 2-0")
    assert linked(phrase.sure) == {("semaine", "week"), ("prochaine", "next")}
    assert linked(phrase.loose) == {("la", "week")}


def test_no_links_at_all():
    phrase = say(",", ",", "")
    assert (texts(phrase.french), phrase.sure, phrase.loose) == ([","], (), ())


def test_links_survive_another_order():
    noun, adjective = say("ville", "city"), say("magnifique", "magnificent")
    phrase = arrange((noun, adjective), (adjective, noun))
    assert texts(phrase.french) == ["ville", "magnifique"]
    assert texts(phrase.english) == ["magnificent", "city"]
    assert linked(phrase.sure) == {("ville", "city"), ("magnifique", "magnificent")}


def test_words_spelled_alike_stay_apart():
    first, second = say("le", "the"), say("le", "the")
    phrase = join(first, second)
    assert len(set(phrase.french)) == 2
    assert len(phrase.sure) == 2


def test_a_part_may_be_in_one_language_only():
    verb, do = say("visite", "visit"), say("", "does")
    phrase = arrange((verb,), (do, verb), loose=((verb, do),))
    assert texts(phrase.french) == ["visite"]
    assert texts(phrase.english) == ["does", "visit"]
    assert linked(phrase.loose) == {("visite", "does")}


def test_nothing_adds_nothing():
    phrase = say("Paris", "Paris")
    assert join(NOTHING, phrase, say("", "")) == phrase
