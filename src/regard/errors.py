"""Everything this package raises on purpose."""


class RegardError(Exception):
    """Base of all of them: the command line prints its message without a traceback."""


class SettingsError(RegardError):
    """A setting or an option does not exist, does not fit, or would do nothing."""


class CorpusError(RegardError):
    """A file of examples cannot be read, or holds what it should not."""


class BadLineError(CorpusError):
    """A line, row or unit of a file cannot be read, while the next one may be."""


class PictureError(RegardError):
    """A file is no picture, or one that cannot be read."""


class TextError(RegardError):
    """Text cannot become tokens, or a tokenizer cannot be made or read."""


class RunError(RegardError):
    """A run folder is missing, damaged, in use, or of another kind or version."""


class DamagedError(RunError):
    """A file of a run is not what the run wrote."""


class TrainingError(RegardError):
    """Training cannot go on: the loss is not finite, or too large to recover."""


class LostRankError(TrainingError):
    """Another process of a training has ended or cannot be reached, and this one ends with it."""


class StorageError(RegardError):
    """A file cannot be written: the disk is full, or closed to us."""


class SearchError(RegardError):
    """A search is asked for something that this model or input cannot give."""


class MissingFontWarning(UserWarning):
    """No installed font has some letters of a figure, which shows boxes instead."""


class RunWarning(UserWarning):
    """Something about a run that a person should know, though it can be used."""
