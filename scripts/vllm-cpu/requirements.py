"""Prints the requirements of a vLLM CPU wheel, one per line, without the packages that have no CPU build.

Usage: requirements.py WHEEL. Run it with the Python that will import the wheel, because it evaluates markers for that Python.
"""

import email.parser
import re
import sys
import zipfile

from pip._vendor.packaging.requirements import Requirement

# The installer pins torch and torchvision. The others exist only as CUDA builds, and no model that is served here imports them.
LEFT_OUT = {"torch", "torchaudio", "torchvision", "torchcodec"}


def main() -> None:
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.parser.Parser().parsestr(wheel.read(name).decode("utf-8"))
    for line in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if re.sub(r"[-_.]+", "-", requirement.name).lower() in LEFT_OUT:
            continue
        requirement.marker = None
        print(requirement)


if __name__ == "__main__":
    main()
