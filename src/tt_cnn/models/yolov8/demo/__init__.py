"""YOLOv8 at work."""
