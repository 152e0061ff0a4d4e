"""The protocols by name, for the commands' `--protocol`. Standard library only."""

from .search_o1 import SearchO1
from .search_r1 import SearchR1

PROTOCOLS = {protocol.name: protocol for protocol in (SearchR1(), SearchO1())}


def add_protocol_option(parser):
    parser.add_argument("--protocol", choices=list(PROTOCOLS), default="search-r1", help="whose texts the model reads and writes (default: %(default)s)")
