from regard.text.comparison_words import compared_words


def test_words_numbers_and_characters():
    assert compared_words("L'Eau, 12 x!") == ["l", "eau", "12", "x"]
    assert compared_words("日本 Tokyo。") == ["日", "本", "tokyo"]
