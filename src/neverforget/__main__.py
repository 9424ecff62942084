"""``python -m neverforget``: the command line, wherever its script is not on PATH."""

from neverforget.runtime.cli import main

if __name__ == "__main__":
    main()
