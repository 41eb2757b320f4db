"""Hybrid on Tenstorrent cards: the entry that the commands of TT-CNN take."""

from tt_cnn.models import ModelEntry

from .reference.model import create
from .tt.model import TtHybrid

ENTRY = ModelEntry(
    name="hybrid",
    title="Hybrid",
    task="classification",
    reference=create,
    tt=TtHybrid,
    gates={"output": 0.99},
    resolutions=((64, 64),),
    batch_sizes=(1,),
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    l1_small_size=32768,
    own_weights=True,
)
