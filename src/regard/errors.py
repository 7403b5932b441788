"""The errors that this package raises, and its warnings."""


class RegardError(Exception):
    """The base of all errors that users can cause: the command line prints their message without a
    traceback.
    """


class SettingsError(RegardError):
    """A setting or an option does not exist, does not fit, or would have no effect."""


class CorpusError(RegardError):
    """A file of examples cannot be read, or has invalid contents."""


class BadLineError(CorpusError):
    """A line, row or unit of a file cannot be read, while the next one may be."""


class PictureError(RegardError):
    """A file is not a picture, or one that cannot be read."""


class TextError(RegardError):
    """Text cannot become tokens, or a tokenizer cannot be made or read."""


class RunError(RegardError):
    """A run folder is missing, damaged, in use, or of another kind or version."""


class DamagedError(RunError):
    """The contents of a run's file are not what the run wrote."""


class TrainingError(RegardError):
    """Training cannot go on: the loss is not finite, or too large to recover."""


class LostRankError(TrainingError):
    """Another process of a training has ended or cannot be reached, and this one ends with it."""


class StorageError(RegardError):
    """A file cannot be written: the disk is full, or access is denied."""


class SearchError(RegardError):
    """A search is asked for something that this model or input does not support."""


class MissingFontWarning(UserWarning):
    """No installed font has some of a figure's characters, which shows boxes instead."""


class RunWarning(UserWarning):
    """Something about a run that the user should know, although the run can be used."""
