"""EfficientNet-Lite0 on the card."""
