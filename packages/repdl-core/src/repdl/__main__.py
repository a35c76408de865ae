"""`python -m repdl`: the `repdl` command."""

from __future__ import annotations

from repdl.cli import main

raise SystemExit(main())
