"""What the bridge and the runner cost, measured beside their peers in one run: `make bench`, `make bench-full`.

Not part of the product: nothing imports it, and what is measured runs in processes of its own.
"""
