"""`hearsay ui`: runs, planner, playground, ledger and report as a page that only this machine sees.

It never reads private text: work that would is done by the command line, in a process of its own.
"""
