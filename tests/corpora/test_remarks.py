from regard.corpora.remarks import Remarks


def test_a_file_that_is_read_again_starts_anew():
    remarks = Remarks()
    for _ in range(2):
        remarks.begin("a")
        remarks.skip("a", "lines", "line 3")
        remarks.skip("a", "lines", "line 5")
        remarks.say("a", "has a header")
    remarks.skip("b", "rows", "line 1")
    assert remarks.sentences() == [
        "a: has a header",
        "a: skipped 2 lines, the first at line 3",
        "b: skipped 1 rows, the first at line 1",
    ]
