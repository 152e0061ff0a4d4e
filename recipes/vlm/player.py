"""
Plays episodes with the model in plain torch, on pages of `pages.py`. The rules are the environment's with one exception:
a search leaves out the page that was shown last; the environment leaves out every page that was shown.
"""

from dataclasses import dataclass, field

import torch

from ..trunk.model import attention, decoder_layer, to_logits
from ..trunk.sampler import Sampler
from .pictures import crop_picture, shown_page
from .texts import END_OF_TURN, NEXT_REPLY, OBSERVATION_HEAD, PROMPT_HEAD, asked
from .viewing import crop_area, legible_numbers, read_action, read_box
from .vlm import make_batch, three_axis_rotation

# Turns of the policy: `max_turns` 5 of the environment, whose last turn is its own.
TURNS = 4
TURN_TOKENS = 32


class SeeingSampler(Sampler):
    """Chunks are ids, or (ids, pictures)."""

    def __init__(self, config, tower, weights, encoder, count, prefix, capacity):
        super().__init__(config, weights, count, prefix, capacity)
        self.tower, self.encoder = tower, encoder
        # The next position of every row: pictures take fewer positions than tokens.
        self.next = [len(prefix)] * count

    def feed(self, rows, chunks):
        chunks = [chunk if isinstance(chunk, tuple) else (chunk, []) for chunk in chunks]
        batch = make_batch(chunks, self.encoder.image, self.encoder.pad, [self.next[row] for row in rows])
        row, sizes = torch.tensor(rows), torch.tensor([len(ids) for ids, _ in chunks])
        places = self.lengths[row][:, None] + torch.arange(batch.ids.shape[1])
        end = int(places.max()) + 1
        mask = (torch.arange(end) <= places[:, :, None])[:, None]

        def attend(layer, q, k, v):
            self.keys[layer][row[:, None], :, places] = k.transpose(1, 2)
            self.values[layer][row[:, None], :, places] = v.transpose(1, 2)
            return attention(self.config, q, self.keys[layer][row, :, :end], self.values[layer][row, :, :end], mask)

        x, added = batch.spread(self.config, self.tower, self.weights)
        rotation = three_axis_rotation(self.config, batch.positions)
        for layer in range(self.config.layers):
            x = decoder_layer(self.config, self.weights, layer, x, rotation, attend)
            if layer < len(added):
                x = x + added[layer]
        self.lengths[row] += sizes
        for i, (one, size) in enumerate(zip(rows, sizes.tolist(), strict=True)):
            self.next[one] = int(batch.positions[:, i, size - 1].max()) + 1
        return to_logits(self.config, self.weights, x[torch.arange(len(rows)), sizes - 1]).log_softmax(-1)


@dataclass
class Played:
    page: object
    colour: str
    # Ids after the prompt's head, with pictures' places expanded.
    ids: list = field(default_factory=list)
    sampled: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    pictures: list = field(default_factory=list)
    turns: list = field(default_factory=list)
    # The page that was seen last, and the numbers that can be read in the evidence, newest first.
    seen: object = None
    read: list = field(default_factory=list)

    @property
    def reward(self):
        answer = next(iter(self.read), None)
        return float(answer == self.page.numbers[self.page.cell_of(self.colour)])


class Player:
    def __init__(self, config, tower, weights, encoder, search, look=lambda picture: picture, openings=()):
        """`search` returns pages for a query, best first; `look` changes the policy's view, for controls; `openings` begin the first turns, for probes."""
        self.config, self.tower, self.weights, self.encoder = config, tower, weights, encoder
        self.search, self.look, self.openings = search, look, [encoder.text(opening) for opening in openings]
        self.prefix = encoder.text(PROMPT_HEAD)
        self.stop = encoder.text(END_OF_TURN)[0]

    @torch.no_grad()
    def play(self, tasks, generator, temperature=1.0):
        """One rollout for each (page, colour)."""
        played = [Played(page, colour) for page, colour in tasks]
        sampler = SeeingSampler(self.config, self.tower, self.weights, self.encoder, len(played), self.prefix, 512)
        chunks = {row: (self.encoder.text(asked(one.colour, one.page.title)), []) for row, one in enumerate(played)}
        for turn in range(TURNS):
            rows = list(chunks)
            for row, (ids, pictures) in chunks.items():
                self.append(played[row], ids, pictures, [0.0] * len(ids), 0)
            opening = self.openings[turn] if turn < len(self.openings) else []
            # The last sampled token of the turn before is not in the cache yet.
            fed = [([*([self.stop] if turn else []), *ids, *opening], pictures) for ids, pictures in chunks.values()]
            turns = sampler.sample_turn(rows, fed, stop={self.stop}, max_tokens=TURN_TOKENS, temperature=temperature, generator=generator)
            chunks = {}
            for row, (ids, log_probs) in turns.items():
                self.append(played[row], opening, [], [0.0] * len(opening), 0)
                self.append(played[row], ids, [], log_probs, 1)
                picture = self.answer(played[row], opening + ids)
                if picture is not None:
                    chunks[row] = (self.encoder.text(OBSERVATION_HEAD) + self.encoder.picture(picture) + self.encoder.text(NEXT_REPLY), [picture])
            if not chunks:
                break
        return played

    @staticmethod
    def append(one, ids, pictures, log_probs, sampled):
        one.ids += ids
        one.pictures += pictures
        one.log_probs += log_probs
        one.sampled += [sampled] * len(ids)

    def answer(self, one, ids):
        """The picture that the environment shows next; None ends the episode. If the environment would explain a mistake, the episode ends here."""
        if ids[-1] != self.stop or any(i in ids for i in (self.encoder.image, self.encoder.start, self.encoder.end)):
            return None
        text = self.encoder.tokenizer.decode(ids[:-1], skip_special_tokens=False)
        one.turns.append(text)
        action, content = read_action(text)
        if action == "search":
            shown = [page for page in self.search(content) if page is not one.seen]
            if not shown:
                return None
            one.seen = shown[0]
            return self.look(shown_page(one.seen))
        box = read_box(content) if action == "bbox" and one.seen is not None else None
        area = None if box is None else crop_area(box)
        if area is None:
            return None
        one.read = legible_numbers(one.seen, area)[:1] or one.read
        return self.look(crop_picture(one.seen, area))
