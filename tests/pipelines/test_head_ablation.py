from regard.inspection.interventions import Silenced
from regard.pipelines.head_ablation import ablate_each_head, num_ablations
from regard.pipelines.translator import load

FRENCH = "Jane visite Paris."


def test_each_head_and_each_layer_is_silenced_once(translator):
    answer = translator.look(FRENCH)
    found = list(ablate_each_head(translator, answer))
    places = [(one["part"], one["layer"], one["head"]) for one in found]
    layers = {"encoder": 3, "decoder": 2, "cross": 2}
    assert sorted(places, key=str) == sorted(
        (
            (part, layer, head)
            for part, count in layers.items()
            for layer in range(count)
            for head in (None, 0, 1, 2, 3)
        ),
        key=str,
    )
    assert num_ablations(answer) == len(found) == 35


def test_the_text_is_that_of_the_changed_translator(translator):
    answer = translator.look(FRENCH)
    for one in ablate_each_head(translator, answer):
        if (one["part"], one["layer"]) == ("cross", 1):
            change = Silenced("cross", 1, one["head"])
            [ablated] = translator.translate([FRENCH], changes=[change])
            assert one["text"] == ablated.text


def test_a_layer_of_one_head_is_silenced_once(other_run):
    from_one = load(other_run, device="cpu")
    found = list(ablate_each_head(from_one, from_one.look(FRENCH)))
    assert [(one["part"], one["layer"], one["head"]) for one in found] == [("cross", 0, 0)]


def test_nothing_is_silenced_where_nothing_was_looked_at(translator):
    answer = translator(FRENCH)
    assert list(ablate_each_head(translator, answer)) == []
    assert num_ablations(answer) == 0
