"""Our own host engine: a C++ program of steps on channels-last images."""
