"""One file for each format of a report, found as rules are (`screen.plugins`): adding a file adds a format.

A format is `render(report, **options) -> str`, and `render_probe(reports, **options) -> str` where `screen probe` has it. The options are
those of `screen.report.render`; a format takes what it uses and leaves the rest (`**_`).
"""
