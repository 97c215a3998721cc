"""What a run, or several, look like: figures and pages from run folders."""
