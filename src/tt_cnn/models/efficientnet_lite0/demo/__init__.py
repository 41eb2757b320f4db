"""The demo of EfficientNet-Lite0."""
