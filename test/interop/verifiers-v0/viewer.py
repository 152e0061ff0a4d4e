"""What `vf-tui` finds under a folder of results and shows when a run is opened, and what `load_outputs` reads.

argv: folder of results.
"""
import asyncio
import json
import sys

from verifiers.scripts.tui import VerifiersTUI, ViewRunScreen, discover_results
from verifiers.utils.save_utils import load_outputs

found = discover_results("nowhere", sys.argv[1])
runs = [run for models in found.values() for each in models.values() for run in each]


def text_of(screen):
    return "\n".join("".join(segment.text for segment in strip) for strip in screen._compositor.render_strips())


async def open_run(run):
    app = VerifiersTUI(found)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        await app.push_screen(ViewRunScreen(run))
        await pilot.pause()
        shown = [text_of(app.screen)]
        await pilot.press("n")
        await pilot.pause()
        return [*shown, text_of(app.screen)]


def view(run):
    outputs = load_outputs(run.path)
    columns = {"rewards": [output["reward"] for output in outputs], "answers": [output["answer"] for output in outputs]}
    return {"env_id": run.env_id, "model": run.model, **columns, "screens": asyncio.run(open_run(run))}


print(json.dumps([view(run) for run in runs]))
