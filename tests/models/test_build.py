import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from regard.errors import SettingsError
from regard.models.build import FAMILIES, ModelSettings, build_model, parameter_limit
from regard.models.translation.luong import LuongSettings
from regard.models.translation.transformer_settings import TransformerSettings

ANY: TypeAdapter[ModelSettings] = TypeAdapter(ModelSettings)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_table_and_the_settings_agree(family):
    settings = ANY.validate_python({"family": family})
    assert type(settings) is FAMILIES[family].settings
    with torch.device("meta"):
        model = build_model(settings, 50, 50, joint=True)
    assert type(model) is FAMILIES[family].construct


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_says_what_it_is(family):
    for name, field in FAMILIES[family].settings.model_fields.items():
        assert field.description, name


@pytest.mark.parametrize("family", FAMILIES)
def test_resolved_settings_read_back_the_same(family):
    settings = ANY.validate_python({"family": family})
    assert ANY.validate_python(settings.model_dump()) == settings


def test_families_are_told_apart_by_name():
    assert ANY.validate_python({"family": "luong", "score": "dot"}) == LuongSettings(score="dot")
    with pytest.raises(ValidationError, match="family"):
        ANY.validate_python({"family": "lstm"})
    with pytest.raises(ValidationError, match="heads"):
        ANY.validate_python({"family": "luong", "heads": 4})


def test_shared_embeddings_need_a_joint_vocabulary():
    with pytest.raises(SettingsError, match=r"two, of 30 and 40 tokens; .* embeddings to 'target'"):
        build_model(TransformerSettings(preset="tiny"), 30, 40, joint=False)


def test_a_joint_vocabulary_has_one_size():
    with pytest.raises(ValueError, match="source_size=30 target_size=40"):
        build_model(LuongSettings(), 30, 40, joint=True)


def test_a_model_within_the_limit_is_built():
    with parameter_limit(12):
        assert sum(p.numel() for p in nn.Linear(3, 3).parameters()) == 12
    nn.Linear(3, 4)  # and none is limited afterwards


@pytest.mark.parametrize("size", [3, 1 << 17, 1 << 40])
def test_a_larger_one_is_refused_before_it_takes_memory(size):
    with pytest.raises(SettingsError, match="its model"), parameter_limit(11):
        nn.Linear(size, size)
