import pytest
import torch

from languages import RECIPES, language_recipe
from regard.models.classification.text_classifier import build_encoder
from regard.models.contracts import Model
from regard.models.language.bert import Bert, BertSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.training.weight_transfer import WeightTransfer, transfer_weights

PIECES = ["<pad>", "<unk>", "<s>", "</s>", "a", "b", "c"]
SIZES = {"layers": 1, "width": 8, "heads": 2}


def gpt(size=7, seed=1, **changed):
    torch.manual_seed(seed)
    return Gpt(GptSettings(**SIZES | {"context": 6} | changed), size)


def transfer(model, other, own=PIECES, given=PIECES):
    weights = {name: x.clone() for name, x in other.state_dict().items()}
    return transfer_weights(model, weights, own_rows={"tokens": own}, given_rows={"tokens": given})


class Outer(Model):
    """A model with another one inside."""

    inner_prefix = "encoder."

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.output = encoder, torch.nn.Linear(8, 3)

    def named_rows(self):
        inner = self.encoder.named_rows()
        return {f"encoder.{name}": kind for name, kind in inner.items()} | {
            "output.weight": "labels",
            "output.bias": "labels",
        }

    def training_features(self, batch, *, hook=None):
        raise NotImplementedError


def test_the_same_model_is_taken_whole():
    model, other = gpt(seed=1), gpt(seed=2)
    done = transfer(model, other)
    assert not done.new
    assert not done.left
    for name, tensor in other.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


def test_a_model_inside_takes_the_weights_of_its_kind():
    other = gpt(seed=2)
    model = Outer(gpt(seed=1))
    done = transfer(model, other)
    assert {one.name for one in done.new} == {"output.weight", "output.bias"}
    assert not done.left
    assert torch.equal(model.encoder.layers[0].feed.outer.weight, other.layers[0].feed.outer.weight)


def test_pieces_that_both_have_keep_their_vectors():
    own = [*PIECES[:4], "c", "d", "a", "e"]
    model, before, other = gpt(len(own)), gpt(len(own)), gpt(seed=2)
    done = transfer(model, other, own=own)
    found, first, theirs = (x.embedding.weight for x in (model, before, other))
    for row, piece in enumerate(own):
        wanted = theirs[PIECES.index(piece)] if piece in PIECES else first[row]
        assert torch.equal(found[row], wanted), piece
    assert str(done.taken[0]) == "embedding.weight (6 of 8 rows)"
    assert [(one.name, one.numbers) for one in done.new] == [("embedding.weight", 2 * 8)]


def test_the_masked_token_of_bert_is_taken_beside_another_vocabulary():
    own, sizes = [*PIECES, "d"], BertSettings(**SIZES, context=6)
    model, other = Bert(sizes, len(own)), Bert(sizes, len(PIECES))
    transfer(model, other, own=own)
    assert torch.equal(model.masked.weight, other.masked.weight)
    assert torch.equal(model.output_bias[:7], other.output_bias[:7])


def test_labels_are_matched_by_name_not_by_place():
    model, other = Outer(gpt(seed=1)), Outer(gpt(seed=2))
    weights = {name: x.clone() for name, x in other.state_dict().items()}
    own_rows, given_rows = {"labels": ["no", "so", "yes"]}, {"labels": ["yes", "what", "no"]}
    before = model.output.bias.detach().clone()
    transfer_weights(model, weights, own_rows=own_rows, given_rows=given_rows)
    theirs = other.output.bias
    assert torch.equal(model.output.bias, torch.stack([theirs[2], before[1], theirs[0]]))


def test_more_positions_keep_those_that_both_have():
    model, before, other = gpt(context=9), gpt(context=9), gpt(seed=2)
    transfer(model, other)
    table = model.positions.table.weight
    assert torch.equal(table[:6], other.positions.table.weight)
    assert torch.equal(table[6:], before.positions.table.weight[6:])


def test_other_shapes_are_left_and_said():
    model, before = gpt(feed_forward=16), gpt(feed_forward=16)
    done = transfer(model, gpt(seed=2))
    remarks = {one.name: one.remark for one in done.new}
    assert remarks["layers.0.feed.inner.weight"] == "32 × 8 there, 16 × 8 here"
    assert {one.name for one in done.left} == set(remarks)
    assert torch.equal(model.layers[0].feed.inner.weight, before.layers[0].feed.inner.weight)


def test_a_piece_that_stands_twice_is_not_taken():
    done = transfer(gpt(), gpt(seed=2), given=[*PIECES[:4], "b", "a", "a"])
    assert str(done.taken[0]) == "embedding.weight (5 of 7 rows)"


def test_the_same_vocabulary_is_taken_whole_though_pieces_look_alike():
    alike = [*PIECES[:5], "a", "c"]
    assert not transfer(gpt(), gpt(seed=2), own=alike, given=list(alike)).new


def test_a_report_is_read_as_it_was_written():
    done = transfer(Outer(gpt()), gpt(seed=2, context=4))
    assert WeightTransfer.from_json(done.to_json()) == done
    kinds = [line.kind for line in done.lines()]
    assert kinds == ["taken", "new", "left"]
    assert sum(line.numbers for line in done.lines()[:2]) == sum(
        x.numel() for x in Outer(gpt()).state_dict().values()
    )


@pytest.mark.parametrize("name", RECIPES)
def test_tensors_that_grow_with_the_vocabulary_are_named(name, tmp_path):
    settings = language_recipe(name, tmp_path).model
    small, large = (build_encoder(settings, PIECES + more) for more in ([], ["d", "e"]))
    shapes = {name: tensor.shape for name, tensor in large.state_dict().items()}
    grown = {name for name, tensor in small.state_dict().items() if tensor.shape != shapes[name]}
    assert grown == {name for name, kind in small.named_rows().items() if kind == "tokens"}


def test_pieces_that_are_new_begin_with_the_mean_of_those_that_are_kept():
    model, other = gpt(size=8), gpt(seed=2)
    weights = {name: x.clone() for name, x in other.state_dict().items()}
    own = [*PIECES[:6], "d", "e"]
    rows = {"own_rows": {"tokens": own}, "given_rows": {"tokens": PIECES}}
    done = transfer_weights(model, weights, **rows, mean_kinds=["tokens"])
    [report] = [one for one in done.taken if one.name == "embedding.weight"]
    assert report.remark == "6 of 8 rows, the others their mean"
    torch.testing.assert_close(model.embedding.weight[6], other.embedding.weight[:6].mean(0))
    assert torch.equal(model.embedding.weight[:6], other.embedding.weight[:6])
