"""Side-by-side runs against peers, as ratios in one run: `python -m bench --help`."""
