"""Where this machine's Chromium is, if it has one: for the page's pictures, benchmark and tests. None is downloaded."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
