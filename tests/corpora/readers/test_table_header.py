from regard.corpora.readers.table_header import find_header


def test_names_tell_the_columns():
    header = find_header(["id", "Target", "Source"], ("und", "und"))
    assert header is not None
    assert header.places == (2, 1)
    assert "'Source' is read as source, 'Target' as target" in header.remark((2, 1))


def test_names_of_other_languages_do_not_tell_the_order():
    header = find_header(["English", "French"], ("und", "und"))
    assert header is not None
    assert header.places is None


def test_one_name_is_not_enough():
    assert find_header(["Source", "Quelle"], ("en", "de")) is None
