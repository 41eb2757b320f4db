"""How good a model is on pictures: data sets, figures, drawings."""
