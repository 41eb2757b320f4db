# SPDX-License-Identifier: Apache-2.0
"""Profiles of models and of recorded commands: what users import. `records.py` says what a profile is."""

from tt_cnn.reports.profiling import profile_commands, profile_model
from tt_cnn.reports.records import Accuracy, Finding, Profile, Row, Signpost

__all__ = ["Accuracy", "Finding", "Profile", "Row", "Signpost", "profile_commands", "profile_model"]
