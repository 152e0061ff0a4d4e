/** The generator of the page world runs with python3 alone; its data set is the committed one, and only a crop around the figure answers a question. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadEnvironment } from 'vf-search/environments/visual-rag';
import { describe, expect, it } from 'vitest';
import { type Asked, playQuestions } from './play-questions.ts';
import { runModule } from '../python.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const COMMITTED = path.join(ROOT, 'packages/vf-search-models/datasets/page-world');
const SPLITS = ['pages', 'train', 'test'];
/** Shown pixels for a pixel of the page. */
const SCALE = 4;

function generate(...options: string[]): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'vf-page-world-'));
  runModule('recipes.pages.pages', ['--out', folder, ...options]);
  return folder;
}

type Box = readonly [number, number, number, number];
interface PageLine {
  id: string;
  words: [string, ...Box, number][];
}
interface Question {
  extra_info: { file_name: string; question: string };
  reward_model: { ground_truth: string };
}
const read = (folder: string, split: string) => readFileSync(path.join(folder, `${split}.jsonl`), 'utf8');
function lines<T>(folder: string, split: string): T[] {
  return read(folder, split)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

const pages = new Map(lines<PageLine>(COMMITTED, 'pages').map((page) => [page.id, page]));
/** The box of the word after the label, which is its figure, on the shown page; moved on by `further` words. */
function boxAfter({ town, label }: Asked, further = 1): Box {
  const { words } = pages.get(`${town}_1`)!;
  const [, left, top, right, bottom] = words[words.findIndex(([text]) => text === label) + further]!;
  return [left / SCALE, top / SCALE, right / SCALE, bottom / SCALE];
}
const turns = ({ town }: Asked, box: Box) => [
  `<think>a</think>\n<search>the page of ${town}</search>`,
  `<think>b</think>\n<bbox>[${box.join(', ')}]</bbox>`,
  '<think>c</think>\n<search_complete>true</search_complete>',
];
const rewards = async (boxOf: (asked: Asked) => Box) =>
  (await playQuestions((asked, i) => turns(asked, boxOf(asked))[i]!)).map(({ reward }) => reward);

describe('recipes/pages/pages.py', () => {
  it('reproduces packages/vf-search-models/datasets/page-world byte for byte', () => {
    const folder = generate();
    for (const split of SPLITS) expect(read(folder, split)).toBe(read(COMMITTED, split));
  });

  it('makes other pages of the same towns for another seed', () => {
    const folder = generate('--seed', '7');
    expect(lines<PageLine>(folder, 'pages').map(({ id }) => id)).toEqual([...pages.keys()]);
    const answers = (of: string) =>
      new Map(['train', 'test'].flatMap((split) => lines<Question>(of, split)).map((q) => [q.extra_info.question, q.reward_model.ground_truth]));
    const [ours, theirs] = [answers(COMMITTED), answers(folder)];
    const shared = [...theirs].filter(([question]) => ours.has(question));
    expect(shared.length).toBeGreaterThan(50);
    expect(shared.filter(([question, answer]) => ours.get(question) === answer).length).toBeLessThan(0.05 * shared.length);
    expect(read(generate('--seed', '7'), 'pages')).toBe(read(folder, 'pages'));
  });

  it('never asks about one town on both sides', () => {
    const towns = (split: string) => new Set(lines<Question>(COMMITTED, split).map(({ extra_info: { file_name: town } }) => town));
    const [train, heldOut] = [towns('train'), towns('test')];
    expect([train.size, heldOut.size]).toEqual([180, 60]);
    expect([...train].filter((town) => heldOut.has(town))).toEqual([]);
  });

  it('makes pages whose figures cannot be read on the whole page', async () => {
    const played = await playQuestions(({ town }) => `<think>a</think>\n<search>the page of ${town}</search>`, { count: 20 });
    for (const { observations } of played) {
      expect(observations[0]).toMatch(/^Page, 700 x 560 pixels:\n\[[\d, ]+\] \p{Lu}\w+\n/u);
      expect(observations[0]!.match(/\] \?$/gm)).toHaveLength(6);
      expect(observations[0]).not.toMatch(/\] \d/);
    }
    const other = await loadEnvironment({ dataset: path.join(COMMITTED, 'train.jsonl'), pages: path.join(COMMITTED, 'pages.jsonl') });
    expect(other.eval.length).toBe(1080);
    await other.close();
  });

  it('is answered by the crop around the figure, with and without its label', async () => {
    expect(new Set(await rewards((asked) => boxAfter(asked)))).toEqual(new Set([1]));
    const both = (asked: Asked): Box => [...(boxAfter(asked, 0).slice(0, 2) as [number, number]), boxAfter(asked)[2] + 40, boxAfter(asked)[3]];
    expect(new Set(await rewards(both))).toEqual(new Set([1]));
  });

  it('is not answered by the crop around a label, another figure, half a page or the whole page', async () => {
    const others = [
      (asked: Asked) => boxAfter(asked, 0),
      (asked: Asked): Box => (boxAfter(asked)[0] < 340 ? [0, 0, 350, 560] : [350, 0, 700, 560]),
      (): Box => [0, 0, 700, 560],
    ];
    for (const box of others) expect(new Set(await rewards(box))).toEqual(new Set([0.2]));
    const another = (asked: Asked) => {
      const { words } = pages.get(`${asked.town}_1`)!;
      return boxAfter(asked, words.findIndex(([text]) => text === asked.label) < 7 ? 3 : -1);
    };
    const mean = (await rewards(another)).reduce<number>((sum, reward) => sum + reward!, 0) / 240;
    // Two figures of a page are seldom the same number.
    expect(mean).toBeLessThan(0.21);
  });
});
