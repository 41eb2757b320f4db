"""YOLOv8 on the card."""
