"""The page of a history in a browser: what it shows, that it asks for nothing, and that it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli import in_process
from synthetic_runs import LATENCY_US, document, write

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> 'quoted' \u202e" + "x" * 200
DAYS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fused of rmsnorm is a tenth slower from day 25 on, compiled of softmax wrong from day 30 on."""
    folder = tmp_path_factory.mktemp("history")
    documents = []
    for day in range(DAYS):
        noise = 1 + 0.01 * (day * 7 % 5)
        known = {name: us * noise for name, us in LATENCY_US.items()}
        slower = known | {
            "fused": known["fused"] * (1.1 if day >= 25 else 1.0) * (1 + 0.004 * (day % 3)),
            HOSTILE: 25.0,
        }
        torch = "2.13.0" if day < 10 else "2.14.0"
        documents.append(document(day, slower, torch=torch))
        status = {"compiled": "wrong"} if day >= 30 else {}
        documents.append(document(day, known, "op=softmax", "dtype=float32", status=status, torch=torch))
    write(folder / "runs", documents)
    for path in (folder / "runs").iterdir():
        (path / "report.html").write_text("<p>A run's own page.</p>")
    ran = in_process(
        *("runs", "--out", "out", "--pivot", "torch", "--store", "store.sqlite"), cwd=folder, module="harness.history"
    )
    assert ran.status == 0, ran.err
    return folder


@pytest.fixture
def page(opened: Any, folder: Path) -> Any:
    return opened(folder / "out" / "index.html")


def titles(page: Any) -> list[tuple[str, ...]]:
    """Variant and case of each chart."""
    texts = page.locator(".chart").all_inner_texts()
    return [tuple(filter(None, text.splitlines()))[:2] for text in texts]


def test_changes_come_first_and_lead_to_their_series(page: Any) -> None:
    rows = page.locator("#changed tbody tr")
    assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["broken", "slower"]
    assert "code" in rows.nth(0).inner_text() and "softmax" in rows.nth(0).inner_text()
    rows.nth(1).click()
    assert titles(page) == [("fused", "rmsnorm rows=4 hidden=512 · bfloat16 · forward · cpu")]
    chart = page.locator(".chart svg")
    chart.wait_for()
    assert "+10%" in chart.locator(".code .label").text_content()
    assert chart.locator(".version").count() == 1
    assert chart.locator(".level").count() == 2
    page.click("#all")
    assert len(titles(page)) > 3


def test_filters_choose_series_and_changes(page: Any) -> None:
    page.select_option("select[name=op]", "softmax")
    assert {case for _, case in titles(page)} == {"softmax rows=256 columns=1024 · float32 · forward · cpu"}
    assert page.locator("#changed tbody tr").count() == 1
    page.select_option("select[name=variant]", "fused")
    assert [variant for variant, _ in titles(page)] == ["fused"]
    assert page.locator("#changed tbody tr").count() == 0
    page.select_option("select[name=op]", "")
    page.select_option("select[name=variant]", "naive")
    assert not titles(page)  # the baseline's ratio says nothing that the others' do not
    page.select_option("#measure", "latency_us")
    assert [variant for variant, _ in titles(page)] == ["naive", "naive"]


def test_two_runs_are_compared_in_the_words_of_the_difference(page: Any, folder: Path) -> None:
    page.locator("#changed tbody tr").nth(1).click()
    chart = page.locator(".chart svg")
    chart.wait_for()
    box = chart.bounding_box()
    for share in (0.15, 0.98):
        chart.click(position={"x": box["width"] * share, "y": box["height"] / 2})
    text = page.inner_text("#compared")
    assert "fused is slower: +" in text and "relative to naive." in text
    assert page.locator("#compared a").count() == 2
    link = page.locator("#compared a").first.get_attribute("href")
    assert (folder / "out" / link).resolve().exists()
    assert "python -m harness.diff runs/run-" in text
    page.click("#compared button")
    assert page.locator("#compared").is_hidden()


def test_hostile_names_are_texts(page: Any) -> None:
    page.select_option("select[name=op]", "rmsnorm")
    shown = next(variant for variant, _ in titles(page) if variant.startswith("</script>"))
    assert len(shown) <= 60 and "\u202e" not in shown
    assert page.locator("img").count() == 0


def test_runs_stand_side_by_side_with_what_they_differ_in(page: Any) -> None:
    assert "Comparable: the columns differ in torch alone." in page.inner_text("#comparable")
    assert page.locator("#pivot thead").inner_text().split() == ["Case", "and", "variant", "2.13.0", "2.14.0"]
    assert page.locator("#bars rect").count() >= 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_need_not_scroll_sideways(opened: Any, folder: Path, scheme: str) -> None:
    page = opened(folder / "out" / "index.html", viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.locator(".chart").first.scroll_into_view_if_needed()
    page.locator(".chart svg").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
