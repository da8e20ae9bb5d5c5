"""Where and how fast a run computes: devices, threads, processes, the compiler."""
