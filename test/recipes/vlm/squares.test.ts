/** The nano vision-language model learns from the texts, pages and crops of the environment visual-rag, and its data set is what its script writes. */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { INVALID_ACTION, invalidBox, loadEnvironment, NO_PAGE, parseAction, parseBox, readAnswer } from 'vf-search/environments/visual-rag';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunImages } from '../../../src/files/run-images.ts';
import { openLocalTokenizer } from '../../../src/tokenizer/local-tokenizer.ts';
import { playScript } from '../../environments/play-script.ts';
import { python, ROOT, runModule } from '../python.ts';

const RECIPE = path.join(ROOT, 'recipes/vlm');
const SQUARES = path.join(RECIPE, 'squares');
const ARGUMENTS = {
  dataset: path.join(SQUARES, 'heldout.jsonl'),
  pages: path.join(SQUARES, 'pages.jsonl'),
  max_turns: 5,
  shown_pixels: [4096, 16_384],
  align: 32,
};

const titleIn = (question: string) => / page (.*)\?$/.exec(question)![1]!;

type Environment = Awaited<ReturnType<typeof loadEnvironment>>;
let shown: Environment;
let spelled: Environment;
beforeAll(async () => {
  shown = await loadEnvironment({ ...ARGUMENTS, images: path.join(SQUARES, 'images') }, { images: new RunImages() });
  spelled = await loadEnvironment(ARGUMENTS);
});
afterAll(() => Promise.all([shown.close(), spelled.close()]));

describe('recipes/vlm/texts.py', () => {
  it('writes the prompt of the environment, and what stands around a picture, as the model’s chat template does', async () => {
    const tokenizer = await openLocalTokenizer(path.join(RECIPE, 'model'));
    const row = shown.eval.at(0);
    const [number, colour] = String(row.exampleId).split('-');
    const theirs = python(
      'from recipes.vlm.texts import *\nfrom recipes.vlm.pages import TITLES\nprint(json.dumps([PROMPT_HEAD + asked(given[1], TITLES[int(given[0]) - 1]), OBSERVATION_HEAD + "x" + NEXT_REPLY]))',
      [number, colour],
    );
    const prompt = await tokenizer.render(row.prompt);
    const next = await tokenizer.renderNext([...row.prompt, { role: 'assistant', content: 'a' }], [{ role: 'user', content: 'x' }], {
      isClosed: true,
    });
    expect([await tokenizer.decode(prompt.ids), await tokenizer.decode(next.ids)]).toEqual(theirs);
  });

  it('has the corrections of the environment as text', () => {
    expect(python('from recipes.vlm.texts import CORRECTIONS\nprint(json.dumps(CORRECTIONS))')).toEqual([INVALID_ACTION, NO_PAGE, invalidBox()]);
  });

  it('teaches turns whose actions and boxes the environment reads, and reads turns as it does', () => {
    const taught = python(`
import random
from recipes.vlm.square_habits import draw_episode
from recipes.vlm.viewing import read_action, read_box
rng = random.Random(2)
turns = [step for _ in range(400) for step in draw_episode(rng)[2] if isinstance(step, str)]
turns += ["<search> a </search>", "<bbox>[1, 2, 3]</bbox>", "<bbox>[1, 2, -3, 4]</bbox>", "<bbox>[1.5, 2, 3, 4]</bbox>", "<bbox>x</bbox>", "<search>a</bbox>", "<think><search>b</search></think><bbox>[1, 2, 3, 4]</bbox>", ""]
print(json.dumps([[turn, *read_action(turn), read_box(read_action(turn)[1])] for turn in turns]))`) as [
      string,
      string | null,
      string,
      number[] | null,
    ][];
    expect(taught.map(([turn]) => [turn, parseAction(turn).action, parseAction(turn).content, parseBox(parseAction(turn).content)])).toEqual(taught);
    expect(taught.slice(0, -8).every(([, action, content, box]) => action === 'search' || box !== null || content === 'true')).toBe(true);
  });
});

const ROW = 5;
const BOXES = [
  [64, 32, 96, 64],
  [0, 0, 128, 128],
  [0, 0, 64, 32],
  [0, 32, 32, 128],
  [10, 20, 100, 45],
  [5, 5, 6, 100],
  [96, 96, 400, 400],
  [40, 40, 64, 64],
];

describe('recipes/vlm/viewing.py', () => {
  it('shows and reads in a crop what the environment shows and reads', async () => {
    const theirs = python(
      `
from recipes.vlm.dataset import SEED, make_world
from recipes.vlm.viewing import crop_area, legible_numbers, shown_size
pages, _, test = make_world(SEED)
page = pages[test[${ROW}]["extra_info"]["reference_page"][0] - 1]
areas = [crop_area(box) for box in given]
print(json.dumps([[*shown_size(area[2] - area[0], area[3] - area[1]), legible_numbers(page, area)] for area in areas]))`,
      BOXES,
    );
    const { question } = spelled.eval.at(ROW).info;
    const ours = [];
    for (const box of BOXES) {
      const turns = [`<search>${titleIn(question)}</search>`, `<bbox>${JSON.stringify(box)}</bbox>`, '<search_complete>true</search_complete>'];
      const { played } = await playScript(spelled, turns, { index: ROW });
      const crop = played.segments.find(({ text }) => text.includes('Crop, '))!.text;
      const [width, height] = /Crop, (\d+) x (\d+) pixels/.exec(crop)!.slice(1).map(Number);
      const numbers = [...crop.matchAll(/\] (\d{3})$/gm)].map(([, number]) => number!);
      ours.push([width, height, numbers]);
      // The reader answers with the first of them, which the reward of player.py takes for granted.
      const words = numbers.map((text, line) => ({ text, box: [0, 20 * line, 22, 20 * line + 10] as const, line }));
      expect(readAnswer(question, [words])).toBe(numbers[0] ?? '');
    }
    expect(ours).toEqual(theirs);
  });
});

describe('recipes/vlm/dataset.py', () => {
  it('writes recipes/vlm/squares again, its pictures pixel for pixel', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'vf-squares-'));
    runModule('recipes.vlm.dataset', ['--out', folder]);
    for (const name of ['pages.jsonl', 'train.jsonl', 'heldout.jsonl'])
      expect(readFileSync(path.join(folder, name), 'utf8')).toBe(readFileSync(path.join(SQUARES, name), 'utf8'));
    const names = readdirSync(path.join(folder, 'images'));
    expect(names).toEqual(readdirSync(path.join(SQUARES, 'images')));
    const pixels = (root: string, name: string) =>
      sharp(path.join(root, 'images', name))
        .raw()
        .toBuffer();
    for (const name of names.slice(0, 20)) expect((await pixels(folder, name)).equals(await pixels(SQUARES, name))).toBe(true);
  });

  it('holds pages out whole, and hides every number from a viewer of the page without a crop', async () => {
    const rows = (name: string) =>
      readFileSync(path.join(SQUARES, name), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { id: string; extra_info: { reference_page: number[] } });
    const pagesOf = (name: string) => new Set(rows(name).map((row) => row.extra_info.reference_page[0]));
    expect([rows('train.jsonl').length, rows('heldout.jsonl').length, pagesOf('heldout.jsonl').size]).toEqual([672, 192, 48]);
    expect([...pagesOf('train.jsonl')].filter((page) => pagesOf('heldout.jsonl').has(page))).toEqual([]);
    const title = titleIn(spelled.eval.at(0).info.question);
    const { played } = await playScript(spelled, [`<search>${title}</search>`, '<search_complete>true</search_complete>']);
    expect(played.segments[1]!.text).toContain('] ?');
    expect(played.segments[1]!.text).not.toMatch(/\d{3}$/m);
  });

  it('finds the page of every held-out question by its title', async () => {
    for (let index = 0; index < spelled.eval.length; index += 7) {
      const { info } = spelled.eval.at(index);
      const { played } = await playScript(spelled, [`<search>${titleIn(info.question)}</search>`, '<search_complete>true</search_complete>'], {
        index,
      });
      expect((played.state as { pages: string[] }).pages).toEqual(info.golden_pages);
    }
  });
});
