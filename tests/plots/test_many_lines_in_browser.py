"""A panel with more lines than anybody tells apart."""

from collections.abc import Iterator

import pytest
from folder_support import folder
from page_support import Viewer, browser, opened

from experiments.report import main

__all__ = ["browser"]

MOST = 40
MANY = {f"{number / 100:g}": number for number in range(10, 53)}
"""Settings of one method, the greater the better; the other has three that all end worse."""


@pytest.fixture(scope="module")
def viewer(browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    place = tmp_path_factory.mktemp("many")
    for ratio, end in MANY.items():
        folder(
            place,
            ratio,
            rounds=20,
            compressor__ratio=float(ratio),
            norm=lambda t, lr, seed, end=end: 2 - end * t / 2000,
        )
    for number in range(3):
        folder(place, f"noisy-{number}", algorithm="noisy", rounds=20, compressor__ratio=0.6 + number / 10,
               norm=lambda t, lr, seed, number=number: 3 + number / 100 - t / 1000)  # fmt: skip
    main([f"results_dir={place}"])
    with opened(browser, place / "report.html") as opened_page:
        yield opened_page


def drawn(viewer: Viewer) -> set[tuple[str, str]]:
    return {
        (trace["method"], trace["name"].partition(", step")[0].rpartition("=")[2]) for trace in viewer.traces("toy")
    }


def test_of_every_method_those_that_end_best_are_drawn_and_that_is_said(viewer: Viewer) -> None:
    best = sorted(MANY, key=MANY.__getitem__)[-(MOST - 3) :]
    assert drawn(viewer) == {("plain", ratio) for ratio in best} | {
        ("noisy", f"0.{6 + number}") for number in range(3)
    }
    assert f"{MOST} of {len(MANY) + 3} lines are drawn" in viewer.text(".panel .note")
    pressed = viewer.page.locator('.panel .legend button[aria-pressed="true"]')
    assert pressed.count() == MOST
    assert viewer.is_quiet()


def test_one_that_is_not_drawn_can_be_chosen(viewer: Viewer) -> None:
    worst = viewer.page.locator('.panel .legend button[aria-pressed="false"]').first
    name = worst.locator("span").text_content()
    worst.click()
    assert drawn(viewer) == {("plain", name.rpartition("=")[2])}
    assert "lines are drawn" not in viewer.text(".panel .note")
    assert viewer.is_quiet()
