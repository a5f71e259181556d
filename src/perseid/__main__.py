"""``python -m perseid``: the command line, where its extra is installed. spark-submit runs this file as a script."""

from __future__ import annotations

import os
import sys

if (
    __name__ == "__main__"
    and __spec__ is None
    and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__))
):
    # Python puts the folder of a script first on its path: the package's own ``types`` would replace the standard one.
    del sys.path[0]

import io

from perseid._version import __version__


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a sign shows another one instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if sys.argv[1:] == ["--version"]:  # without the imports of the commands
        print(f"perseid {__version__}")
        return
    try:
        from perseid.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich"):
            raise
        print(
            f"The command line needs {missing}, which is not installed.\nInstall it with: pip install 'perseid[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    app()


if __name__ == "__main__":
    main()
