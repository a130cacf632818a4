"""A browser that remembers what went wrong, and a kvplan that is asked the same on the command line."""

import contextlib
import importlib.util
import json
import pathlib
import re
import subprocess

DESKTOP = {"width": 1280, "height": 900}
NARROW = {"width": 360, "height": 740}
LAYOUTS = [(f"{scheme}-{name}", scheme, size) for scheme in ("light", "dark") for name, size in (("desktop", DESKTOP), ("narrow", NARROW))]

AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).parent / "axe.min.js"


class Kvplan:
    """The binary, and where pictures go."""

    def __init__(self, binary, shots):
        self.binary = binary
        self.shots = shots

    def has(self, verb):
        return subprocess.run([self.binary, verb, "--help"], capture_output=True).returncode == 0

    def json(self, *args):
        done = subprocess.run([self.binary, *args, "--quiet", "--format", "json"], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def plan_of(self, query):
        """`kvplan plan` with a query as its flags."""
        pairs = [p.split("=", 1) for p in query.split("&")]
        return self.json("plan", *[word for name, value in pairs for word in (f"--{name}", value)])

    def error(self, *args):
        return subprocess.run([self.binary, *args], capture_output=True, text=True).stderr

    @contextlib.contextmanager
    def served(self):
        """The address of a page that is served meanwhile."""
        process = subprocess.Popen([self.binary, "serve", "--port", "0", "--quiet"], stdout=subprocess.PIPE, text=True)
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def opened(browser, address, scheme="light", size=DESKTOP, expect_errors=None, **more):
    """A page; at its end the console must be clean and nobody else asked than `address`."""
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce", **more)
    page = context.new_page()
    complaints, asked = [], []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.on("request", lambda r: asked.append(r.url))
    page.goto(address)
    try:
        yield page
        home = re.match(r"(https?://[^/]+/|file://.*)", address).group(1)
        strangers = [u for u in asked if not u.startswith(home) and not u.startswith("data:")]
        assert not strangers, f"asked elsewhere: {strangers}"
        if expect_errors:
            complaints[:] = [c for c in complaints if not re.search(expect_errors, c)]
        assert not complaints, f"the console says {complaints}"
    finally:
        context.close()


def overflow(page):
    """What sticks out to the right, outside of what scrolls by itself."""
    return page.evaluate("""() => {
      const wide = document.documentElement.clientWidth;
      const inside = (e) => e.closest('.scroll, pre, .hidden, .skip, [hidden]');
      const out = [...document.querySelectorAll('body *')].filter((e) => !inside(e) && e.getBoundingClientRect().right > wide + 1);
      const page = document.documentElement.scrollWidth > wide ? ['the page: ' + document.documentElement.scrollWidth] : [];
      return page.concat(out.map((e) => e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.getBoundingClientRect().right));
    }""")


def accessible(page, where):
    """No violation of WCAG 2.1 A and AA, nor of axe's best practice: names, roles, contrast, order of headings."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    said = [f"{v['id']}: {v['help']}: {n['html'][:160]} {n.get('failureSummary', '')[:200]}" for v in found["violations"] for n in v["nodes"]]
    assert not said, f"{where}:\n" + "\n".join(said)


def contrasts(page, what):
    """Contrast of the text of SVG, which axe leaves out, against the nearest opaque background: smallest ratio."""
    return page.evaluate("""(what) => {
      const rgb = (c) => c.match(/[0-9.]+/g).map(Number);
      const light = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgb(c).length === 3) return c; } return 'rgb(255,255,255)'; };
      return Math.min(...[...document.querySelectorAll(what)].map((t) => {
        const [a, b] = [light(getComputedStyle(t).fill), light(behind(t.ownerSVGElement.parentElement))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      }));
    }""", what)
