"""The same as for openenv: both packages are imported by the same name."""
import pathlib
import runpy

runpy.run_path(str(pathlib.Path(__file__).parent.parent / "openenv" / "play.py"))
