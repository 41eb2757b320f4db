"""conv2d: configuration, plan, prepared weights and numbers."""
