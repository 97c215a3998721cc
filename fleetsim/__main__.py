"""Entry point of `python -m fleetsim`."""

from fleetsim.cli.entry import main

if __name__ == "__main__":
    main()
