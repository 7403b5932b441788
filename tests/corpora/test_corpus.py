from regard.corpora.corpus import ReadReport


def test_a_file_that_is_read_again_starts_anew():
    report = ReadReport()
    for _ in range(2):
        report.start_file("a")
        report.skip("a", "lines", "line 3")
        report.skip("a", "lines", "line 5")
        report.add_note("a", "has a header")
    report.skip("b", "rows", "line 1")
    assert report.messages() == [
        "a: has a header",
        "a: skipped 2 lines, the first at line 3",
        "b: skipped 1 rows, the first at line 1",
    ]
