"""`python -m hearsay`: the command line, by the interpreter that is running."""

from hearsay.cli.main import main

if __name__ == "__main__":
    main()
