"""The command lines that the recipes share. Standard library only."""

import argparse
import pathlib


def command_parser(doc):
    """A parser whose help begins with the module's text."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def tokenizer_parser(doc):
    parser = command_parser(doc)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="model directory; created if missing")
    return parser


def model_parser(doc):
    """A parser for commands that read a model."""
    parser = command_parser(doc)
    parser.add_argument("model", type=pathlib.Path, help="model directory")
    parser.add_argument("--threads", type=int, default=1, help="(default: %(default)s)")
    return parser
