"""`python -m teeny_async`: the command line, where no script is installed."""

from teeny_async.cli import main

if __name__ == "__main__":
    main()
