"""The languages that M2M100's tokenizer numbers, in the order of their ids, by `language_codes`."""

_M2M100 = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha
    he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne
    nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo
    xh yi yo zh zu
    """
_WMT21 = "en ha is ja cs ru zh de"
DEFAULT_LANGUAGES = "m2m100"  # if a tokenizer's settings name none


def _tokens(codes: str) -> tuple[str, ...]:
    return tuple(f"__{code}__" for code in codes.split())


LANGUAGE_LISTS = {DEFAULT_LANGUAGES: _tokens(_M2M100), "wmt21": _tokens(_WMT21)}
"""The tokens of languages: Fan et al. 2021, and Tran et al. 2021."""
