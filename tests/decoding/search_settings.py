"""Strategies over the settings of a search."""

from hypothesis import strategies as st

SETTINGS = st.fixed_dictionaries(
    {
        "n_best": st.integers(1, 2),
        "beam": st.fixed_dictionaries(
            {
                "size": st.integers(2, 4),
                "stop": st.sampled_from(["safe", "size", "heuristic", "limit"]),
                "patience": st.sampled_from([1.0, 1.5, 3.0]),
                "coverage_penalty": st.sampled_from([0.0, 0.3]),
                "length_penalty": st.sampled_from([0.0, 0.6, 2.0]),
            }
        ),
        "rules": st.fixed_dictionaries(
            {
                "max_length": st.integers(3, 9),
                "max_length_ratio": st.sampled_from([0.5, 1.0, 2.0]),
                "max_length_offset": st.integers(0, 3),
                "min_length": st.integers(0, 2),
                "no_repeat_ngram": st.sampled_from([0, 2]),
                "excluded": st.sampled_from(["spread", "lost"]),
                "at_limit": st.sampled_from(["behind", "ranked", "eos"]),
            }
        ),
    }
)
