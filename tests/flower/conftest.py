collect_ignore = ["apps"]
"""Apps as users write them: they import flwr, and hold no tests."""
