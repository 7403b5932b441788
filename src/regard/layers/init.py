"""First weights."""

import math

from torch import nn

LSTM_OUTPUT_RMS = 0.2
"""About the root mean square of what an LSTM says before it has learned anything."""


def xavier_linears(model: nn.Module) -> None:
    """Draw the weights of every linear layer inside `model` by Xavier; zero its biases.

    torch's own draw is narrower by √3: the signals of a deep recurrent model then begin so small
    that it learns several times more slowly.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def init_output_layer(output: nn.Linear) -> None:
    """Draw the weights of an output layer above an LSTM so that its logits have unit variance.

    By Xavier, for a large vocabulary, they would begin some eight times smaller, and a deep model
    would take hundreds of steps to make them large enough to say anything.
    """
    nn.init.normal_(output.weight, std=1 / (LSTM_OUTPUT_RMS * math.sqrt(output.in_features)))
