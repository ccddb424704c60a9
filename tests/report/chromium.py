"""A page as Chromium shows it, without a window: what it logs, what it asks for, where its parts stand, and a picture of it.

A window is at least 500 pixels wide; a narrower page stands in a frame of a page around it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
"""The browser; None where there is none."""
FLAGS = (
    "--headless=new", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
ASK = """<script>
const all = (what) => [...document.querySelectorAll(what)];
const shown = (e) => e.checkVisibility({ checkVisibilityCSS: true }) && e.getClientRects().length > 0;
const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; };
const linear = (v) => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const own = (e) => getComputedStyle(e).backgroundColor;
const ground = (e) => !e ? "rgb(255, 255, 255)" : /, 0\\)$/.test(own(e)) ? ground(e.parentElement) : own(e);
const contrast = (e) => {
  const pair = [light(getComputedStyle(e).color), light(ground(e))].sort((a, b) => a - b);
  return (pair[1] + 0.05) / (pair[0] + 0.05);
};
const says = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
addEventListener("load", () => {
const words = all("body *").filter((e) => !e.closest("svg") && shown(e) && says(e));
const page = document.scrollingElement;
const said = JSON.stringify({
  width: innerWidth, scrolls: page.scrollWidth, height: page.scrollHeight, dark: matchMedia("(prefers-color-scheme: dark)").matches,
  asked: performance.getEntriesByType("resource").map((r) => r.name),
  text: document.body.innerText,
  blocks: all("svg.block").map((s) => ({
    box: box(s), parts: [...s.querySelectorAll("rect, circle")].map(box), names: [...s.querySelectorAll("text")].map(box) })),
  plots: all(".plot svg").map((s) => ({ box: box(s), marks: s.querySelectorAll("path, use").length })),
  wide: words.filter((e) => !e.closest(".wide, pre, figure") && e.getBoundingClientRect().right > innerWidth + 0.5)
    .map((e) => e.outerHTML.slice(0, 200)),
  pale: words.filter((e) => contrast(e) < 4.5).map((e) => [e.tagName + "." + e.className, contrast(e), e.textContent.trim().slice(0, 80)]),
  words: words.length,
  squeezed: words.filter((e) => e.textContent.trim().length > 60 && box(e)[3] > 3 * box(e)[2]).map((e) => e.outerHTML.slice(0, 200)),
});
if (parent === window) document.body.innerHTML = `<pre id="said"></pre>`, document.getElementById("said").textContent = said;
else parent.postMessage(said, "*");
});
</script>"""
"""Says what the page is like when all is loaded. `squeezed`: text in a column of a word or less. `pale`: text whose contrast with its ground is below
4.5, what WCAG 2.1 (1.4.3, AA) asks of text of common size."""
FRAME = """<!doctype html><body style="margin: 0"><iframe src="{name}" style="border: 0; width: {width}px; height: {height}px"></iframe>
<script>
addEventListener("message", (e) => {{ document.body.innerHTML = '<pre id="said"></pre>'; document.getElementById("said").textContent = e.data; }});
</script>"""


@dataclass(frozen=True)
class Shown:
    """What a page says of itself in a window of some width, and what the browser logged."""

    facts: dict[str, Any]
    console: list[str]


def show(page: Path, width: int, *, dark: bool = False) -> Shown:
    """What the page is like in a window so wide, with everything that can be opened open. The page itself is shown first, for what it logs."""
    console = _run(page, max(width, 500), dark)[1]
    asked = page.with_name(f"{page.stem}.asked.html")
    text, policies = POLICY.subn("", page.read_text(encoding="utf-8"))
    assert policies == 1
    asked.write_text(text.replace("<details", "<details open").replace("</body>", ASK + "</body>"), encoding="utf-8")
    start = asked
    if width < 500:
        start = page.with_name(f"{page.stem}.frame.html")
        start.write_text(FRAME.format(name=asked.name, width=width, height=800), encoding="utf-8")
    out, logged = _run(start, max(width, 500), dark, "--virtual-time-budget=5000", "--dump-dom")
    found = re.search(r'<pre id="said">(.*?)</pre>', out, re.DOTALL)
    assert found, (out[:500], logged)
    return Shown(json.loads(unescape(found[1])), [*console, *logged])


def picture(page: Path, target: Path, width: int, height: int, *, dark: bool = False) -> None:
    """A PNG of the page's beginning."""
    _run(page, width, dark, f"--screenshot={target}", height=height)


def _run(page: Path, width: int, dark: bool, *words: str, height: int = 900) -> tuple[str, list[str]]:
    """Stdout, and what the page logged: messages of scripts and of policies, errors of loading."""
    assert CHROMIUM is not None
    profile = page.parent / "profile"
    own = [f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    own += ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [CHROMIUM, *FLAGS, *own, *(words or ("--dump-dom",)), page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


__all__ = ["CHROMIUM", "Shown", "picture", "show"]
