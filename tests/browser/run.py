#!/usr/bin/env python3
"""The page of `kvplan serve` and the file of `kvplan report` in a real browser.

    run.py KVPLAN CHROMIUM [--shots FOLDER]

Playwright drives the Chromium that is installed; axe-core judges the markup. Exit 1 if a check fails. What is checked
stands in page_checks.py and report_checks.py, one function a claim.
"""

import argparse
import pathlib
import sys
import traceback

from playwright.sync_api import sync_playwright

import page_checks
import report_checks
from browse import Kvplan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvplan", type=pathlib.Path)
    parser.add_argument("chromium")
    parser.add_argument("--shots", type=pathlib.Path, default=pathlib.Path("target/browser/shots"))
    parser.add_argument("--only", default="", help="part of a check's name")
    args = parser.parse_args()
    args.shots.mkdir(parents=True, exist_ok=True)
    kvplan = Kvplan(args.kvplan.resolve(), args.shots)
    checks = [*page_checks.CHECKS]
    if kvplan.has("report"):
        checks += report_checks.CHECKS
    else:
        print("this kvplan has no report: its checks are left out")
    failed = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        for check in checks:
            if args.only in check.__name__:
                failed += not held(check, browser, kvplan)
        browser.close()
    print(f"{failed} of the browser checks failed" if failed else "all browser checks passed")
    return 1 if failed else 0


def held(check, browser, kvplan):
    """Whether a check holds; each begins with pages of its own."""
    name = f"{check.__module__}.{check.__name__}"
    try:
        said = check(browser, kvplan)
    except Exception as error:
        at = [frame for frame in traceback.extract_tb(error.__traceback__) if "_checks" in frame.filename]
        print(f"FAILED {name}, line {at[-1].lineno}: {at[-1].line}\n    {type(error).__name__}: {str(error)[:2000]}")
        return False
    print(f"ok {name}{': ' + said if said else ''}")
    return True


if __name__ == "__main__":
    sys.exit(main())
