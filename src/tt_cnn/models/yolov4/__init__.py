"""placeholder"""

MODELS = ()
