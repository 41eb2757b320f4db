"""What a card would take: durations of steps, gaps between them, transfers, and both queues' timelines."""
