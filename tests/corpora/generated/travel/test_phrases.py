from regard.corpora.generated.travel.phrases import EMPTY, aligned, arrange, join


def texts(words):
    return [word.text for word in words]


def linked(links):
    return {(french.text, english.text) for french, english in links}


def test_without_links_each_word_belongs_to_each():
    phrase = aligned("attend", "waits for")
    assert linked(phrase.sure) == {("attend", "waits"), ("attend", "for")}
    assert not phrase.possible


def test_links_are_sure_or_loose():
    phrase = aligned("la semaine prochaine", "next week", "0?1 1-1 2-0")
    assert linked(phrase.sure) == {("semaine", "week"), ("prochaine", "next")}
    assert linked(phrase.possible) == {("la", "week")}


def test_no_links_at_all():
    phrase = aligned(",", ",", "")
    assert (texts(phrase.french), phrase.sure, phrase.possible) == ([","], (), ())


def test_links_survive_another_order():
    noun, adjective = aligned("ville", "city"), aligned("magnifique", "magnificent")
    phrase = arrange((noun, adjective), (adjective, noun))
    assert texts(phrase.french) == ["ville", "magnifique"]
    assert texts(phrase.english) == ["magnificent", "city"]
    assert linked(phrase.sure) == {("ville", "city"), ("magnifique", "magnificent")}


def test_words_spelled_alike_stay_apart():
    first, second = aligned("le", "the"), aligned("le", "the")
    phrase = join(first, second)
    assert len(set(phrase.french)) == 2
    assert len(phrase.sure) == 2


def test_a_part_may_be_in_one_language_only():
    verb, do = aligned("visite", "visit"), aligned("", "does")
    phrase = arrange((verb,), (do, verb), possible=((verb, do),))
    assert texts(phrase.french) == ["visite"]
    assert texts(phrase.english) == ["does", "visit"]
    assert linked(phrase.possible) == {("visite", "does")}


def test_nothing_adds_nothing():
    phrase = aligned("Paris", "Paris")
    assert join(EMPTY, phrase, aligned("", "")) == phrase
