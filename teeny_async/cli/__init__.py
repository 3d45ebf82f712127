"""The command line: click commands; every heavy import inside its command."""
