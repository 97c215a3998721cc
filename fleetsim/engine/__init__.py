"""When things happen: client tasks and servers on one virtual clock (SimPy)."""
