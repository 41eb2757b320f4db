"""The demo of MobileNetV2."""
