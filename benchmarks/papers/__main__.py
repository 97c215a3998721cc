"""See `benchmarks.papers.command`."""

from benchmarks.papers.command import main

if __name__ == "__main__":
    main()
