"""How good a model is on images: data sets, figures, drawings."""
