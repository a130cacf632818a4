"""What the file of `kvplan report` promises."""

import contextlib
import pathlib
import subprocess
import tempfile

from browse import LAYOUTS, accessible, contrasts, opened, overflow


@contextlib.contextmanager
def written(kvplan, *args):
    """The address of the report of a result."""
    with tempfile.TemporaryDirectory() as folder:
        result, report = (pathlib.Path(folder) / name for name in ("result.json", "report.html"))
        subprocess.run([kvplan.binary, *args, "--quiet", "--format", "json", "-o", result], check=True)
        subprocess.run([kvplan.binary, "report", result, "-o", report, "--quiet"], check=True)
        yield report.as_uri()


PLAN = ("plan",)
SWEEP = ("sweep", "--hardware", "gh200", "--vary", "batch=2,4,8", "--vary", "t1=stream,staged")


def layouts_hold(browser, kvplan):
    """Light and dark, wide and narrow: nothing sticks out, axe finds nothing; `opened` sees that nobody is asked."""
    for what, args in (("plan", PLAN), ("sweep", SWEEP)):
        with written(kvplan, *args) as address:
            for name, scheme, size in LAYOUTS:
                with opened(browser, address, scheme, size) as page:
                    page.screenshot(path=kvplan.shots / f"report-{what}-{name}.png", full_page=True)
                    assert not overflow(page), f"{what} {name}: {overflow(page)}"
                    accessible(page, f"{what} {name}")


def it_asks_nobody(browser, kvplan):
    """One request: the file itself."""
    with written(kvplan, *PLAN) as address:
        context = browser.new_context()
        page = context.new_page()
        asked = []
        page.on("request", lambda r: asked.append(r.url))
        page.goto(address)
        page.wait_for_load_state("networkidle")
        assert asked == [address], asked
        context.close()


def it_is_whole_without_scripts(browser, kvplan):
    with written(kvplan, *PLAN) as address, opened(browser, address, java_script_enabled=False) as page:
        assert page.locator(".verdict").count() >= 1
        assert page.locator("main table tbody tr").count() > 10


def values_show_on_hover_and_focus(browser, kvplan):
    with written(kvplan, *PLAN) as address, opened(browser, address) as page:
        marks = page.locator("svg [data-tip]")
        assert marks.count() > 5
        page.locator("svg [data-tip]").first.scroll_into_view_if_needed()
        marks.first.hover(force=True)
        tip = page.locator("#tip")
        assert tip.is_visible() and any(c.isdigit() for c in tip.inner_text()), tip.inner_text()
        page.keyboard.press("Escape")
        assert tip.is_hidden()
        page.locator("svg[data-roving] [data-tip][tabindex='0']:visible, [data-roving] svg [data-tip][tabindex='0']:visible").first.focus()
        first = tip.inner_text()
        assert tip.is_visible()
        page.keyboard.press("ArrowRight")
        assert tip.inner_text() != first


def tables_sort_and_filter(browser, kvplan):
    with written(kvplan, *PLAN) as address, opened(browser, address) as page:
        table = page.locator("table[data-sorted]:has(th.n)").first
        index = table.locator("thead th").evaluate_all("(all) => all.findIndex((h) => h.classList.contains('n'))")
        head = table.locator("thead th").nth(index)
        values = lambda: [float(v) for v in table.locator("tbody tr").evaluate_all(f"(all) => all.map((r) => r.cells[{index}].dataset.v ?? '')") if v]
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert len(values()) > 1 and values() == sorted(values())
        head.get_by_role("button").press("Enter")
        assert values() == sorted(values(), reverse=True)
        tools = page.locator("form.tools").first
        if tools.count():
            tools.locator("input").first.fill("no such words anywhere")
            assert tools.locator("output").inner_text().startswith("0 of ")


CHECKS = [
    layouts_hold,
    it_asks_nobody,
    it_is_whole_without_scripts,
    values_show_on_hover_and_focus,
    tables_sort_and_filter,
]
