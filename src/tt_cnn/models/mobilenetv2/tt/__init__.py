"""MobileNetV2 on the card."""
