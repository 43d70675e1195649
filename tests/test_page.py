"""The page in a browser: what it shows, that it asks for nothing, and that it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic_results
from cli import Ran

from harness.report import run_report, sweep_report
from harness.results import storage
from harness.results.comparison import Comparison


@pytest.fixture(scope="module")
def run_page(main_job: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's page with an awkward name, and a variant that failed with an awkward reason."""
    folder = tmp_path_factory.mktemp("page") / "run"
    synthetic_results.renamed(main_job.folder, folder, {"fused": synthetic_results.AWKWARD})
    document = synthetic_results.with_status(
        storage.read(folder), "failed", "<script>alert(1)</script> & more", "compiled"
    )
    document["config"]["op"]["note"] = "</pre><b>bold</b>"
    run_report.write(folder, Comparison(document))
    return folder / "report.html"


@pytest.fixture(scope="module")
def sweep_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep's page with ten thousand rows."""
    folder = tmp_path_factory.mktemp("sweep")
    rows, jobs = synthetic_results.sweep({"rows": range(1, 60), "hidden": range(64, 64 * 58, 64)})
    assert len(rows) > 10_000
    sweep_report.write(synthetic_results.sweep_report(folder, rows, jobs))
    return folder / "report.html"


def column(page: Any, table: str, number: int) -> list[str]:
    """The texts of a table's column."""
    return page.locator(f"#{table} tbody tr td:nth-child({number})").all_inner_texts()


def press(page: Any, table: str, header: str) -> None:
    page.locator(f"#{table} th button", has_text=header).click()


def test_a_run_shows_all_that_it_has(opened: Any, run_page: Path, main_job: Ran) -> None:
    page = opened(run_page)
    assert column(page, "comparison", 1) == ["naive", synthetic_results.AWKWARD, "compiled"]
    text = page.inner_text("body")
    for heading in ("Comparison", "Timeline", "Operators", "Samples", "Make it again", "Environment", "Configuration"):
        assert heading in text
    assert f"{synthetic_results.AWKWARD}: operators, per call" in text
    assert page.inner_text("#command") == main_job.results["command"]
    assert "<script>alert(1)</script> & more" in page.inner_text("#verdict")
    assert page.inner_text("#verdict li >> nth=0").startswith(synthetic_results.AWKWARD)
    page.click("summary")
    assert "note: </pre><b>bold</b>" in page.inner_text("#configuration")
    assert "fn: variants.rmsnorm.naive" in page.inner_text("#configuration")


def test_charts_stand_in_the_page_and_are_described(opened: Any, run_page: Path) -> None:
    images = opened(run_page).locator("img")
    assert images.count() >= 3
    for number in range(images.count()):
        assert images.nth(number).evaluate("image => image.complete && image.naturalWidth") > 500
        assert images.nth(number).get_attribute("alt")


def test_tables_sort_by_number_and_by_name(opened: Any, run_page: Path) -> None:
    page = opened(run_page)
    press(page, "comparison", "Variant")
    assert column(page, "comparison", 1) == ["compiled", synthetic_results.AWKWARD, "naive"]
    press(page, "comparison", "Operator calls")
    assert column(page, "comparison", 1) == ["naive", synthetic_results.AWKWARD, "compiled"]
    press(page, "comparison", "Operator calls")
    assert column(page, "comparison", 1) == [synthetic_results.AWKWARD, "naive", "compiled"]  # n/a stays last
    assert page.get_attribute("#comparison th[aria-sort]", "aria-sort") == "ascending"


def test_units_count_when_a_table_is_sorted(opened: Any, run_page: Path) -> None:
    page = opened(run_page)
    texts = ["2 s", "900 µs", "1,500 µs", "n/a", "31 ms", "12.0 KiB", "3 B", "1.05× (1.04–1.06)", "–", "49.5%", "naive"]
    keys = page.evaluate("texts => texts.map(key)", texts)
    assert keys == [2e6, 900, 1500, "n/a", 31e3, 12 * 1024, 3, 1.05, "–", 49.5, "naive"]


def test_a_phone_need_not_scroll_sideways(opened: Any, run_page: Path, sweep_page: Path) -> None:
    for path in (run_page, sweep_page):
        page = opened(path, viewport={"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_paper_shows_the_configuration(opened: Any, run_page: Path) -> None:
    page = opened(run_page)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#configuration").is_visible()
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.slow  # shorter tables are tried beside it
def test_of_ten_thousand_rows_those_that_are_asked_for_are_shown(opened: Any, sweep_page: Path) -> None:
    page = opened(sweep_page)
    rows = page.locator("#comparison tbody tr")
    assert rows.count() == 200
    press(page, "comparison", "Latency")
    assert column(page, "comparison", 2)[0] == str(64 * 57)  # the largest case is the slowest
    page.fill("input[type=search]", "hidden=1024 compiled rows=7")
    assert rows.count() == 1
    page.fill("input[type=search]", "compiled")
    page.click("text=Show more")
    assert rows.count() == 1200
    assert "1,200 of 3,363 rows" in page.inner_text("#comparison-note")


def test_a_sweep_links_to_its_cases(opened: Any, sweep_page: Path) -> None:
    page = opened(sweep_page)
    page.click("text=cases, each with a page of its own")
    assert page.get_attribute("details a >> nth=1", "href") == "1/report.html"
    assert "compiled is faster in" in page.inner_text("#verdict")
