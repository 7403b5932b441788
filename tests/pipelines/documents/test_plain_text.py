from regard.pipelines.documents.plain_text import read_text


def test_lines_keep_what_breaks_them():
    document = read_text("Un.\r\n\r\n  - deux \n\t\n12\u2028trois")
    assert document.lines == ["Un.", "  - deux ", "12", "trois"]
    shouted = document.join([line.upper() for line in document.lines])
    assert shouted == "UN.\r\n\r\n  - DEUX \n\t\n12\u2028TROIS"
