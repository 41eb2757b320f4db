# SPDX-License-Identifier: Apache-2.0
"""What Prometheus reads about the served models."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
IMAGES = (1, 2, 4, 8, 16, 32, 64, 128)


class Figures:
    """Of all models of a server, each under its name."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(
            "tt_cnn_requests", "Requests for inference, by the status of the answer.", ("model", "status"), **own
        )
        self.images = Counter("tt_cnn_images", "Images that went through a model.", ("model",), **own)
        self.waiting = Gauge("tt_cnn_images_waiting", "Images that wait for a model.", ("model",), **own)
        self.batches = Histogram("tt_cnn_batch_images", "Images of a run.", ("model",), buckets=IMAGES, **own)
        self.run_seconds = Histogram("tt_cnn_run_seconds", "A run of a model.", ("model",), buckets=SECONDS, **own)
        self.request_seconds = Histogram(
            "tt_cnn_request_seconds", "From the whole request to its answer.", ("model",), buckets=SECONDS, **own
        )
