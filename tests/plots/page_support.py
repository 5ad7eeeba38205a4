"""A browser without a network, and the content of its page of results."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ALONE = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
"""Options with which the browser starts no connection of its own."""


@dataclass
class Viewer:
    """A browser's page, with its network requests and error messages."""

    page: playwright.Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Show the first view again."""
        self.page.evaluate(
            """() => new Promise(done => {
                if (!location.hash) { done(); return; }
                addEventListener("hashchange", () => setTimeout(done), { once: true });
                location.hash = "";
            })"""
        )

    def traces(self, task: str, kind: str = "line") -> list[dict]:
        """The traces in a task's panel."""
        return self.page.evaluate(
            """([task, kind]) => document.querySelector(`.panel[data-task="${task}"] .plot`).data
                .filter(trace => trace.meta.kind === kind)
                .map(({ x, y, meta, line, opacity, name }) => ({ x, y, ...meta, line, opacity, name }))""",
            [task, kind],
        )

    def methods(self, task: str) -> set[str]:
        """The methods with lines in a task's panel."""
        return {trace["method"] for trace in self.traces(task)}

    def line(self, task: str, method: str, kind: str = "line") -> dict:
        """The only trace of a method's finished runs in a task's panel."""
        [found] = [
            trace for trace in self.traces(task, kind) if trace["method"] == method and trace.get("finished", True)
        ]
        return found

    def drawn(self, task: str) -> list[str]:
        """The paths of the lines on the screen, without bands and markers."""
        return self.page.eval_on_selector_all(
            f'.panel[data-task="{task}"] .scatterlayer .js-line', "paths => paths.map(path => path.getAttribute('d'))"
        )

    def titles(self, task: str) -> list[str]:
        """The axis titles of a task's panel, x first."""
        panel = self.page.locator(f'.panel[data-task="{task}"]')
        return [panel.locator(f".{name}title").text_content() for name in ("x", "y")]

    def text(self, place: str) -> str:
        return self.page.text_content(place)

    def is_quiet(self) -> bool:
        """Whether the page has made no request and reported no error."""
        return not self.asked and not self.complaints


@contextmanager
def open_page(
    browser: playwright.Browser, file: Path, hash_: str = "", width: int = 1366, height: int = 900, **options: Any
) -> Iterator[Viewer]:
    """Open the page in this file. Requests for anything but files are recorded and aborted."""
    viewer = Viewer(browser.new_page(viewport={"width": width, "height": height}, **options))

    def answer(route: playwright.Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            viewer.asked.append(route.request.url)
            route.abort()

    viewer.page.route("**/*", answer)
    viewer.page.on("console", lambda message: viewer.complaints.append(message.text))
    viewer.page.on("pageerror", lambda error: viewer.complaints.append(str(error)))
    viewer.page.goto(f"{file.as_uri()}{hash_}")
    yield viewer
    assert viewer.is_quiet()
    viewer.page.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    """A browser. Skips the test if none is installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as machinery:
        browser = machinery.chromium.launch(executable_path=found, args=ALONE)
        yield browser
        browser.close()
