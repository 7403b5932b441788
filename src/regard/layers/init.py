"""First weights."""

import math

from torch import nn

LSTM_OUTPUT_RMS = 0.2
"""About the root mean square of the outputs of an untrained LSTM."""


def xavier_linears(model: nn.Module) -> None:
    """Draw the weights of every linear layer inside `model` by Xavier; zero its biases.

    torch's default is narrower by √3, with which deep recurrent models learn several times slower.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def init_output_layer(output: nn.Linear) -> None:
    """Draw the weights of an output layer above an LSTM so that its logits have unit variance.

    By Xavier, for a large vocabulary, they would be some eight times smaller, and a deep model
    would need hundreds of steps to make them large enough.
    """
    nn.init.normal_(output.weight, std=1 / (LSTM_OUTPUT_RMS * math.sqrt(output.in_features)))
