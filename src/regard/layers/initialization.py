"""Initial weights of linear layers, which models draw before training."""

import math

from torch import nn

LSTM_OUTPUT_RMS = 0.2
"""About the root mean square of the outputs of an untrained LSTM."""


def xavier_linears(model: nn.Module) -> None:
    """Xavier weights and zero biases for all linear layers; torch's default learns slower."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def init_output_layer(output: nn.Linear) -> None:
    """Weights for logits of unit variance above an LSTM; Xavier's are about eight times smaller."""
    nn.init.normal_(output.weight, std=1 / (LSTM_OUTPUT_RMS * math.sqrt(output.in_features)))
