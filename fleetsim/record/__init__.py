"""What happened: the tables of a run, how they survive a kill, and how they are read back."""
