"""Every error a person can meet, and the exit code each one leaves.

    HearsayError            1   something went wrong that is neither of the two below
    ├── BadInput            2   a setting, a file or a row is not what it must be
    │   ├── ConfigError     2     ... a setting
    │   ├── DataError       2     ... a file, row or column (never quotes the content)
    │   └── ModelError      2     ... a language model or tokenizer
    ├── BudgetError         3   the privacy budget does not allow it, or cannot teach anything
    └── LedgerError         1   the ledger or its chain cannot be trusted as it stands

A message says what was got, what is needed and what to type. Messages about private rows name row number and column
and nothing else: exceptions travel into logs.
"""


def lacks_memory(error: Exception) -> bool:
    """A GPU's, Python's, or what torch says of a processor's: told apart without importing torch for seconds."""
    name = type(error).__name__
    return name in ("OutOfMemoryError", "MemoryError") or (
        name == "RuntimeError" and "can't allocate memory" in str(error)
    )


class HearsayError(Exception):
    exit_code = 1


class BadInput(HearsayError):
    exit_code = 2


class ConfigError(BadInput):
    pass


class DataError(BadInput):
    pass


class ModelError(BadInput):
    pass


class BudgetError(HearsayError):
    exit_code = 3


class LedgerError(HearsayError):
    pass
