# SPDX-License-Identifier: Apache-2.0
"""A profile as one page that stands alone: charts, tables and findings, nothing fetched from anywhere."""

from tt_cnn.reports.html.page import report_html, write_report

__all__ = ["report_html", "write_report"]
