"""One view of a run, frozen to a single offline HTML file. Never reads private/."""
