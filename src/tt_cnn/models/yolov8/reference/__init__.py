"""YOLOv8 in PyTorch."""
