"""The card's memory: banks, what they hold, and shard grids that a card has."""
