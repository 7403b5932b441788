"""Names of the parameters of translation models that have a row for each token."""

SOURCE_TOKENS, TARGET_TOKENS = "source tokens", "target tokens"
TOKEN_ROWS = {
    "source.weight": SOURCE_TOKENS,
    "target.weight": TARGET_TOKENS,
    "output.weight": TARGET_TOKENS,
    "output.bias": TARGET_TOKENS,
}
"""The named rows of embeddings `source` and `target` and a linear layer `output`: see
`Model.named_rows`."""
