"""Recorders that tell what was asked of them."""

from regard.kernels.graphs import Again, CaptureError


class Counted(Again):
    """Counts what was captured and what was done again."""

    def __init__(self, until=float("inf")):
        self.captured, self.replayed = 0, 0
        self.until = until  # from so many on, it fails

    def capture(self, work):
        if self.captured >= self.until:
            raise CaptureError("the device says no")
        self.captured += 1

        def again():
            self.replayed += 1
            work()

        return again
