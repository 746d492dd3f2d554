"""The Grafana dashboard of the chart, its check, and its pictures."""
