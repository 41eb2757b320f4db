"""UNet behind a pipeline, beside PyTorch: python -m unet.demo.demo."""

from tt_cnn.models import create_pipeline
from tt_cnn.models.running import reference_outputs
from tt_cnn.testing import agreement

from .. import ENTRY
from ..tt.common import model_on_card

EXECUTOR = "trace+2cq"
INPUTS = 4


def main() -> None:
    batches = [ENTRY.example_input(batch_size=ENTRY.batch_sizes[0], seed=seed) for seed in range(INPUTS)]
    with model_on_card(EXECUTOR) as (reference, model), create_pipeline(model, EXECUTOR) as pipeline:
        inputs = [model.to_host_input(batch) for batch in batches]
        pipeline.compile(inputs[0])
        found = [model.to_torch(output) for output in pipeline.enqueue(inputs).pop_all()]
        for number, (batch, outputs) in enumerate(zip(batches, found, strict=True)):
            rights = reference_outputs(reference, batch)
            for name, right, output in zip(model.outputs, rights, outputs, strict=True):
                print(f"input {number}, {name} {tuple(output.shape)}: PCC {agreement(right, output):.5f}")


if __name__ == "__main__":
    main()
