# SPDX-License-Identifier: Apache-2.0
"""Limits: what keeps them, what misses them, and what CI is told."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from tt_cnn.reports.gate import Verdict, judge_points, judge_profile, share, verdicts_junit, verdicts_markdown
from tt_cnn.reports.profile import Accuracy, Profile


def test_a_profile_within_its_limits(unet: Profile) -> None:
    measured = replace(unet, accuracy=(Accuracy("mask", 0.99),))
    verdicts = judge_profile(measured, min_fps=unet.fps, max_l1=share("99%"), min_pcc={"mask": 0.99})
    assert [one.passed for one in verdicts] == [True, True, True]


def test_each_limit_is_missed_by_a_little(unet: Profile) -> None:
    measured = replace(unet, accuracy=(Accuracy("mask", 0.9899),))
    verdicts = judge_profile(
        measured, min_fps=unet.fps + 0.01, max_l1=share(str(unet.l1_peak - 1)), min_pcc={"mask": 0.99, "edge": 0.5}
    )
    assert [one.passed for one in verdicts] == [False] * 4
    assert str(verdicts[0]).startswith("fps end to end with trace+2cq, predicted: ")
    assert str(verdicts[2]) == "PCC of mask with PyTorch: 0.98990, at least 0.99 is needed"
    assert verdicts[3].found == "not measured"


@pytest.mark.parametrize(
    ("text", "size", "bytes_"), [("95%", 1000, 950), ("1300KB", 5, 1331200), ("1.5mb", 5, 1572864), ("4096", 5, 4096)]
)
def test_shares_of_l1(text: str, size: int, bytes_: int) -> None:
    assert share(text).of(size) == bytes_


@pytest.mark.parametrize("text", ["", "0%", "101%", "-5%", "much", "95 percent"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it must be like 95% "):
        share(text)


def test_points_of_a_figure_that_there_is_not() -> None:
    assert [one.passed for one in judge_points({"IoU": 80.0}, {"IoU": 80.0})] == [True]
    with pytest.raises(ValueError, match="--min names mAP; the figures are IoU"):
        judge_points({"IoU": 80.0}, {"mAP": 1.0})


NASTY = Verdict('PCC of "<out>"|`x`', "0.5 & less", "at least 0.9", False)


def test_junit_is_one_case_for_each_limit() -> None:
    suite = ET.fromstring(verdicts_junit("a <model>", [NASTY, replace(NASTY, passed=True)], 1.5)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("time")) == ("2", "1", "1.500")
    missed, passed = suite.findall("testcase")
    failure = missed.find("failure")
    assert failure is not None and failure.get("message") == str(NASTY) and missed.get("classname") == "a <model>"
    assert passed.find("failure") is None and passed.findtext("system-out") == "0.5 & less"


def test_markdown_is_a_table_that_no_name_breaks() -> None:
    text = verdicts_markdown("a <model>", [("fps", "190"), ('PCC of "<out>"', "repeated")], [NASTY])
    head, _, *table = text.strip().splitlines()
    assert head == "### a &lt;model&gt;: 1 limit missed"
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1 and len(table) == 4
    assert "**missed**" in table[2] and table[3] == "| fps | 190 | | |"
