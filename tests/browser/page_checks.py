"""What the page of `kvplan serve` promises."""

import json
import statistics
import subprocess
import tempfile
from urllib.parse import unquote, urlsplit

from browse import LAYOUTS, NARROW, accessible, contrasts, opened, overflow

QUERY = "hardware=gh200&policy=four-tier:hbm=0.3"


def query_of(page):
    return unquote(urlsplit(page.url).query)


def settled(page, query=None):
    """The answer and the chart of the page's own address are there."""
    page.wait_for_function("""(query) => {
      const at = decodeURIComponent(location.search.slice(1));
      const shown = document.getElementById('verdict').dataset.query;
      return shown !== undefined && decodeURIComponent(shown) === at && (!query || at === query)
        && document.getElementById('chart').getAttribute('aria-busy') === 'false'
        && document.querySelector('.plot svg, #chart > p');
    }""", arg=query)


def number(page, what):
    value = page.locator(what).get_attribute("data-value")
    return None if value is None else float(value)


def mine(plan, t1):
    return next(a for a in plan["rows"][0]["alternatives"] if a["name"] == t1.split(":")[0])


def same_as_cli(page, kvplan, t1="stream"):
    """The figures on the page are those of the command line for the page's address, to the last bit."""
    way = mine(kvplan.plan_of(query_of(page)), t1)
    rate = way["throughput"]["output_tokens_per_s"] if way["fits"] else None
    assert number(page, "#rate") == rate, (query_of(page), number(page, "#rate"), rate)
    assert number(page, "#tpot") == (way["throughput"]["tpot_mean_s"] if way["fits"] else None)
    memory = way["memory"]
    assert number(page, "#saved") == memory["hbm_saved_moved_bytes"] + memory["hbm_saved_destroyed_bytes"]
    text = page.locator("#headline").inner_text()
    assert ("Fits" in text) == way["fits"], text


def layouts_hold(browser, kvplan):
    """Light and dark, wide and narrow: nothing sticks out, axe finds nothing, the chart's text can be read."""
    with kvplan.served() as (address, _):
        for name, scheme, size in LAYOUTS:
            for case, query in (("default", ""), ("short", "hardware=h100-sxm&policy=four-tier:hbm=0.5"), ("selective", "hardware=gh200&t1=selective:top-k=512&policy=four-tier:hbm=0.2,evict=0.3,semantics=cumulative")):
                with opened(browser, f"{address}?{query}", scheme, size) as page:
                    settled(page)
                    page.screenshot(path=kvplan.shots / f"page-{case}-{name}.png", full_page=True)
                    assert not overflow(page), f"{name} {case}: {overflow(page)}"
                    accessible(page, f"{name} {case}")
                    if page.locator(".plot svg text").count():
                        ratio = contrasts(page, ".plot svg text")
                        assert ratio >= 4.5, f"{name}: {ratio}"


def very_narrow_holds(browser, kvplan):
    """Text twice as large as 360 pixels leave room for: 320 pixels wide, as WCAG's reflow asks."""
    with kvplan.served() as (address, _), opened(browser, address, size={"width": 320, "height": 640}) as page:
        settled(page)
        assert not overflow(page), overflow(page)


def sliders_equal_the_command_line(browser, kvplan):
    """Each control moved, each figure compared."""
    times = []
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}") as page:
        settled(page)
        same_as_cli(page, kvplan)
        for share in (10, 20, 45, 55, 90):
            page.locator("#share-slider").fill(str(share))
            settled(page, f"hardware=gh200&policy=four-tier:hbm={share / 100:g}")
            same_as_cli(page, kvplan)
            times.append(number(page, "#took"))
        page.locator("#fit").check()
        settled(page, "hardware=gh200")
        same_as_cli(page, kvplan)
        page.locator("#evict-slider").fill("40")
        settled(page, "hardware=gh200&policy=four-tier:hbm=fit,evict=0.4,semantics=cumulative")
        same_as_cli(page, kvplan)
        page.locator("#evict").fill("0")
        for t1 in ("staged", "host-attention", "direct", "selective"):
            page.locator("#t1").select_option(t1)
            settled(page)
            assert t1 in query_of(page)
            same_as_cli(page, kvplan, t1)
        for control, value in (("#batch-slider", "40"), ("#output-slider", "60"), ("#prompt-slider", "50")):
            page.locator(control).fill(value)
            settled(page)
            same_as_cli(page, kvplan, "selective")
        for control, value in (("#kv", "fp8"), ("#weights", "int4"), ("#model", "llama-3.1-8b"), ("#hardware", "h100-sxm"), ("#gpus", "2")):
            page.locator(control).select_option(value)
            settled(page)
            same_as_cli(page, kvplan, "selective")
        page.get_by_role("button", name="Start over").click()
        settled(page, "hardware=gh200")
    return f"an answer took {statistics.median(times):.0f} ms (median of {len(times)}, browser included)"


def a_dragged_slider_ends_at_its_last_place(browser, kvplan):
    """Superseded questions are dropped: fewer are asked than moves made, and the last one is what stands there."""
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}") as page:
        settled(page)
        asked = []
        page.on("request", lambda r: asked.append(r.url) if "/api/plan" in r.url else None)
        page.evaluate("""async () => {
          const slider = document.getElementById('share-slider');
          for (let i = 0; i <= 60; i++) {
            slider.value = 2 + i / 2;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
            await new Promise((done) => setTimeout(done, 8));
          }
        }""")
        settled(page, "hardware=gh200&policy=four-tier:hbm=0.32")
        same_as_cli(page, kvplan)
        assert 1 < len(asked) < 61, len(asked)
        return f"61 moves in about half a second, {len(asked)} questions"


def a_link_keeps_the_state(browser, kvplan):
    query = "model=llama-3.1-8b&hardware=rtx-4090&weights=bf16&batch=16&output=6000&t1=staged&policy=four-tier:hbm=0.25,evict=0.3,semantics=per-interval,window=64"
    with kvplan.served() as (address, _), opened(browser, f"{address}?{query}") as page:
        settled(page)
        assert sorted(query_of(page).split("&")) == sorted(query.split("&")), query_of(page)
        shown = {name: page.locator(f"#{name}").input_value() for name in ("model", "hardware", "weights", "batch", "output", "t1", "share", "evict", "semantics")}
        assert shown == {"model": "llama-3.1-8b", "hardware": "rtx-4090", "weights": "bf16", "batch": "16", "output": "6000", "t1": "staged", "share": "25", "evict": "30", "semantics": "per-interval"}, shown
        same_as_cli(page, kvplan, "staged")
        before = page.locator("#rate").inner_text()
        page.reload()
        settled(page)
        assert page.locator("#rate").inner_text() == before
        command = page.locator("#command").inner_text()
        assert command.startswith("kvplan plan --") and "--policy four-tier:hbm=0.25" in command, command


def the_table_sorts(browser, kvplan):
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}") as page:
        settled(page)
        column = lambda: page.locator("#ways tbody tr td:nth-child(2)").evaluate_all("(all) => all.map((c) => c.dataset.value)")
        numbers = lambda: [float(v) for v in column() if v]
        first = column()
        head = page.locator("#ways thead th").nth(1)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert numbers() == sorted(numbers(), reverse=True) and len(numbers()) > 4
        head.get_by_role("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert numbers() == sorted(numbers())
        values = column()
        assert values[len(numbers()):] == [""] * (len(values) - len(numbers())), "what is missing is last"
        page.locator("#share-slider").fill("25")
        settled(page)
        assert numbers() == sorted(numbers()), "a new answer keeps the order"
        head.get_by_role("button").press("Space")
        assert head.get_attribute("aria-sort") is None
        page.locator("#share-slider").fill("30")
        settled(page)
        assert column() == first


def the_chart_tells_its_values(browser, kvplan):
    """On hover, by keyboard, and as a table; each value is that of a sweep on the command line."""
    with kvplan.served() as (address, _), opened(browser, address) as page:
        settled(page)
        readout = lambda: page.locator("#chart-readout").inner_text()
        box = page.locator(".plot svg").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
        hovered = readout()
        assert hovered.startswith("T0 ") and "stream" in hovered, hovered
        page.locator(".plot").focus()
        page.keyboard.press("End")
        last = readout()
        page.keyboard.press("ArrowLeft")
        before = readout()
        assert last != before and last.startswith("T0 "), (last, before)
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        share = number_in(readout())
        page.keyboard.press("Enter")
        settled(page)
        assert abs(float(page.locator("#share").input_value()) - share) < 0.05 * share + 0.01
        assert page.evaluate("() => document.activeElement.className") == "plot", "the focus stays on the chart"
        same_as_cli(page, kvplan)
        page.locator("#chart summary").click()
        rows = page.locator("#chart table tbody tr")
        assert rows.count() >= 8
        page.locator("#share-slider").fill("12")
        settled(page)
        assert page.locator("#chart details").get_attribute("open") is not None, "the table stays open"
        swept = kvplan.json("sweep", "--hardware", "gh200", "--vary", "t1=stream", "--vary", "policy.hbm=0,fit")
        zero = swept["cells"][0]["outcome"]["throughput"]["output_tokens_per_s"]
        column = [t for t in page.locator("#chart table tbody td:nth-child(2)").all_inner_texts() if t != "–"]
        shown = float(column[0].replace(",", ""))
        assert abs(shown / zero - 1) < 0.005, (shown, zero)


def number_in(text):
    return float(text.split("T0 ")[1].split(" ")[0])


def it_works_by_keyboard(browser, kvplan):
    """Every control is reached by Tab, with its focus to be seen, and moves by arrow keys."""
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}") as page:
        settled(page)
        reached = []
        for _ in range(60):
            page.keyboard.press("Tab")
            at = page.evaluate("() => { const e = document.activeElement; if (e === document.body) return ['', true]; const s = getComputedStyle(e); return [e.id || e.className || e.textContent.trim(), s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1]; }")
            if at[0] == "" or (reached and at[0] == reached[0]):
                break
            reached.append(at[0])
            assert at[1], f"no focus to be seen on {at[0]}"
        for name in ("share", "share-slider", "fit", "budget", "t1", "evict-slider", "batch", "batch-slider", "prompt", "output", "model", "hardware", "gpus", "runtime", "weights", "kv", "reset", "plot", "get-result", "get-scenario", "copy-link"):
            assert name in reached, f"{name} is not among {reached}"
        page.locator("#share-slider").focus()
        page.keyboard.press("ArrowRight")
        settled(page, "hardware=gh200&policy=four-tier:hbm=0.305")
        same_as_cli(page, kvplan)
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "verdict"


def answers_are_said_aloud(browser, kvplan):
    """A live region holds the verdict in a sentence, after the hand rests."""
    with kvplan.served() as (address, _), opened(browser, address) as page:
        settled(page)
        page.wait_for_function("() => document.getElementById('said').textContent.startsWith('Fits')")
        assert page.locator("#said").get_attribute("aria-live") == "polite"
        page.locator("#share").fill("99")
        page.wait_for_function("() => document.getElementById('said').textContent.startsWith('Does not fit')")


def a_refusal_is_the_command_lines(browser, kvplan):
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}", expect_errors="status of 422") as page:
        settled(page)
        page.locator("#batch").fill("0")
        page.wait_for_selector("#failure:not([hidden])")
        said = page.locator("#failure-message").inner_text()
        assert f"error: {said}" in kvplan.error("plan", "--batch", "0"), said
        page.screenshot(path=kvplan.shots / "page-refused.png")
        accessible(page, "a refusal")
        page.locator("#batch").fill("4")
        page.wait_for_selector("#failure", state="hidden")
        page.goto(f"{address}?model=no-such-model")
        page.wait_for_selector("#failure:not([hidden])")
        assert "not in the catalog" in page.locator("#failure-message").inner_text()


def what_is_downloaded_gives_the_same(browser, kvplan):
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}", accept_downloads=True) as page:
        settled(page)
        with tempfile.TemporaryDirectory() as folder:
            for link, name in (("#get-scenario", "scenario.toml"), ("#get-result", "plan.json")):
                with page.expect_download() as download:
                    page.locator(link).click()
                assert download.value.suggested_filename == name
                download.value.save_as(f"{folder}/{name}")
            again = kvplan.json("plan", f"{folder}/scenario.toml")
            saved = json.loads(open(f"{folder}/plan.json").read())
            assert again["rows"] == saved["rows"]
            assert mine(saved, "stream")["throughput"]["output_tokens_per_s"] == number(page, "#rate")
            report = page.locator("#get-report")
            if report.count():
                with page.expect_download() as download:
                    report.click()
                download.value.save_as(f"{folder}/report.html")
                subprocess.run([kvplan.binary, "report", f"{folder}/plan.json", "-o", f"{folder}/again.html"], check=True)
                assert open(f"{folder}/report.html").read() == open(f"{folder}/again.html").read()


def a_server_that_is_gone_is_noticed(browser, kvplan):
    with kvplan.served() as (address, process), opened(browser, address, expect_errors="ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET") as page:
        settled(page)
        process.kill()
        process.wait()
        page.locator("#share").fill("12")
        page.wait_for_selector("#failure:not([hidden])")
        assert "No answer" in page.locator("#failure-message").inner_text()


def numbers_do_not_jump(browser, kvplan):
    """Moving the share leaves the chart and the table where they are, so that the hand keeps its place."""
    with kvplan.served() as (address, _), opened(browser, f"{address}?{QUERY}", size=NARROW) as page:
        settled(page)
        top = lambda: page.locator("#share-slider").evaluate("(e) => e.getBoundingClientRect().top + scrollY")
        before = top()
        for share in ("12", "25", "40"):
            page.locator("#share").fill(share)
            settled(page)
            assert abs(top() - before) < 1, (share, before, top())


CHECKS = [
    layouts_hold,
    very_narrow_holds,
    sliders_equal_the_command_line,
    a_dragged_slider_ends_at_its_last_place,
    a_link_keeps_the_state,
    the_table_sorts,
    the_chart_tells_its_values,
    it_works_by_keyboard,
    answers_are_said_aloud,
    a_refusal_is_the_command_lines,
    what_is_downloaded_gives_the_same,
    a_server_that_is_gone_is_noticed,
    numbers_do_not_jump,
]
