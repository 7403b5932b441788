import tomllib

from packaging.requirements import Requirement

from bench.versions import ROOT, TORCH, lower_bounds


def test_each_dependency_but_torch_is_held_at_its_least_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    held = lower_bounds(project)
    assert len(held) == len(wanted) - 1
    for requirement in map(Requirement, [*wanted, *held, TORCH]):
        assert len(requirement.specifier) == 1
    least = {Requirement(one).name: str(Requirement(one).specifier) for one in wanted}
    assert {one.partition("==")[0]: f">={one.partition('==')[2]}" for one in held} == {
        name: bound for name, bound in least.items() if name != "torch"
    }


def test_the_build_of_torch_is_that_of_the_constraints():
    assert TORCH in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
