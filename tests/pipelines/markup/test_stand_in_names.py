from types import SimpleNamespace

from regard.pipelines.markup.stand_in_names import PERSONS, PLACES, assign_names, spellable_names
from regard.text.special_tokens import UNK


def test_names_that_both_vocabularies_can_spell():
    def knowing(*names):
        return SimpleNamespace(
            encode=lambda texts: [[7] if text in names else [UNK] for text in texts]
        )

    both = knowing("Anna", "Paul", "Paris"), knowing("Paul", "Paris", "Berlin")
    assert spellable_names(both) == [["Paul"], ["Paris"]]


def test_no_name_is_a_part_of_another():
    names = [*PERSONS, *PLACES]
    assert len(set(names)) == len(names)
    assert not [(one, other) for one in names for other in names if one != other and one in other]


def test_each_gets_names_of_its_own_that_the_text_lacks():
    names = [["Anna", "Paul", "Marie"], ["Paris", "Berlin"]]
    assert assign_names(["{a}", "{b}", "{a}"], names, "Anna dort") == {
        "{a}": ["Paul", "Paris"],
        "{b}": ["Marie", "Berlin"],
    }
    assert assign_names(["{a}", "{b}", "{c}", "{d}"], names, "") == {
        "{a}": ["Anna", "Paris"],
        "{b}": ["Paul", "Berlin"],
        "{c}": ["Marie"],
    }
    assert assign_names(["{a}"], [], "") == {}
