"""The page in a real Chromium: light and dark, without an error, a request or a finding of axe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hack.downloads import FOLDERS
from playwright.sync_api import Browser, Page, sync_playwright

from support.pages import HOSTILE, page_of

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=FOLDERS["chromium"]() / "chromium-headless-shell")
        yield browser
        browser.close()


class Seen:
    """A page as a browser shows it, and what the browser logs and asks for."""

    def __init__(self, browser: Browser, file: Path, scheme: Scheme) -> None:
        self.logged: list[str] = []
        self.asked: list[str] = []
        self.page: Page = browser.new_page(color_scheme=scheme)
        self.page.on("console", lambda message: self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def findings(self) -> list[tuple[str, list[Any]]]:
        """The findings of axe, each with the parts of the page that it is about."""
        self.page.evaluate((FOLDERS["axe-core"]() / "axe.min.js").read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run()")
        assert len(found["passes"]) > 20
        return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]

    def color_of(self, what: str, name: str) -> str:
        """A colour of the first element that a selector finds, as it is shown."""
        color = "([what, name]) => getComputedStyle(document.querySelector(what))[name]"
        return str(self.page.evaluate(color, [what, name]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(page_of("order", "cart", *HOSTILE), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_page_is_shown_without_an_error_a_request_or_a_finding(browser: Browser, file: Path, scheme: Scheme) -> None:
    seen = Seen(browser, file, scheme)
    seen.page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")

    assert seen.findings() == []
    assert seen.logged == []
    assert seen.asked == [file.as_uri()]


def test_texts_of_strangers_are_shown_and_run_nothing(browser: Browser, file: Path) -> None:
    seen = Seen(browser, file, "light")

    assert seen.page.get_by_text(HOSTILE[0]).count() > 0
    assert seen.page.locator("script, img, [onload], [onerror]").count() == 0


def test_a_page_follows_light_and_dark_with_its_pictures(browser: Browser, file: Path) -> None:
    light, dark = (Seen(browser, file, scheme) for scheme in SCHEMES)

    for what, name in (("body", "backgroundColor"), ("body", "color"), ("svg text", "fill")):
        assert light.color_of(what, name) != dark.color_of(what, name)
    for seen in (light, dark):
        assert seen.color_of("svg text", "fill") == seen.color_of("body", "color")


def test_a_table_opens_by_keyboard(browser: Browser, file: Path) -> None:
    seen = Seen(browser, file, "light")
    table = seen.page.get_by_role("region", name="Table: Messages by status")
    assert not table.is_visible()

    seen.page.get_by_text("Table: Messages by status").press("Enter")

    assert table.is_visible()
