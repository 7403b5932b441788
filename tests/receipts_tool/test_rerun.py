from docs.receipts_tool.records import Rerun
from docs.receipts_tool.rerun import rerun


def test_a_command_must_print_the_numbers_of_the_page(tmp_path):
    (tmp_path / "bench.py").write_text("print('805760 parameters, loss 1.7441, 138M')\n")
    command = "test $PWD = $OUT -a ! -e bench.py && python -m bench"
    form = Rerun(command=command, prints="805,760 1.744 138M")
    assert rerun(tmp_path, form).same
    other = form.model_copy(update={"prints": "805,761 1.745"})
    assert [str(one) for one in rerun(tmp_path, other).missing] == ["805,761", "1.745"]
    assert rerun(tmp_path, other.model_copy(update={"tolerance": 0.01})).same


def test_a_command_that_fails_or_has_other_data_differs(tmp_path):
    failed = rerun(tmp_path, Rerun(command="echo no such file >&2; exit 3", prints=""))
    assert (failed.same, failed.failed) == (False, "no such file")
    digest = "0f" * 32
    form = Rerun(command=f"echo data {digest}", prints="")
    assert rerun(tmp_path, form, digest).same
    assert rerun(tmp_path, form, "1a" * 32).failed == f"the digest of its data is {digest}"
