"""Write the dashboard's JSON into the chart: python -m hack.dashboard."""

from hack.dashboard.build import FILE, text

FILE.write_text(text(), encoding="utf-8")
