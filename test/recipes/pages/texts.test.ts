/** nano-pages is taught the texts of the environment visual-rag: its prompt, pages, crops of every shape and the answer to a broken turn. */
import { contentText } from 'vf-search';
import { checkFormat, INVALID_ACTION, loadEnvironment, parseAction, parseBox } from 'vf-search/environments/visual-rag';
import { describe, expect, it } from 'vitest';
import { playQuestions } from './play-questions.ts';
import { python } from '../python.ts';

/** The figure of a page of the committed world, large crops and small ones, crops over the border. */
const BOXES = [
  [0, 0, 700, 560],
  [0, 0, 350, 560],
  [100, 50, 400, 180],
  [20, 60, 333, 140],
  [33, 17, 222, 321],
  [600, 400, 5000, 700],
  [0, 0, 3, 3],
];

describe('recipes/pages/texts.py', () => {
  it('writes the prompt of the environment in ChatML', async () => {
    const environment = await loadEnvironment({ dataset: 'page-world' });
    const row = environment.eval.at(0);
    const prompt = python('from recipes.pages.texts import prompt\nprint(json.dumps(prompt(given)))', row.info.question);
    const messages = row.prompt.map(({ role, content }) => `<|im_start|>${role}\n${contentText(content)}<|im_end|>\n`);
    expect(prompt).toBe(`${messages.join('')}<|im_start|>assistant\n`);
    await environment.close();
  });

  it('shows pages and crops as the environment does, and answers a broken turn alike', async () => {
    const turns = ({ town }: { town: string }) => [
      `<search>the page of ${town}</search>`,
      ...BOXES.map((box) => `<bbox>${JSON.stringify(box)}</bbox>`),
      '<think>open',
      '<search_complete>true</search_complete>',
    ];
    const played: string[][] = [];
    // An episode ends before all boxes are tried.
    for (let from = 0; from < BOXES.length; from += 4) {
      const some = await playQuestions(
        (asked, i) => {
          const all = turns(asked);
          return [all[0]!, ...all.slice(1 + from, 5 + from)][i] ?? all.at(-1)!;
        },
        { count: 24 },
      );
      for (const { observations } of some) played.push([...observations]);
    }
    const taught = python(
      `
from recipes.pages.texts import crop_text, INVALID_ACTION, page_text
from recipes.pages.pages import draw_world, EVALUATION_SEED, split_towns
world, played = draw_world(EVALUATION_SEED), []
towns = [town for town in split_towns()[1] for _ in range(4)][:24]
texts = {town: [page_text(world[town])] + [crop_text(world[town], box) for box in given] + [INVALID_ACTION] for town in towns}
print(json.dumps(texts))`,
      BOXES,
    ) as Record<string, string[]>;
    const known = new Set(Object.values(taught).flat());
    expect(played.flat().filter((text) => !known.has(text))).toEqual([]);
    const shown = new Set(played.flat());
    expect(Object.values(taught).flatMap((texts) => texts.filter((text) => !shown.has(text)))).toEqual([]);
    expect(known.size).toBeGreaterThan(30);
    expect(Object.values(taught)[0]!.at(-1)).toBe(INVALID_ACTION);
  });
});

describe('recipes/pages/episodes.py', () => {
  const episodes = (habits: string, count: number) =>
    python(`
import random
from recipes.pages.episodes import episode, GOOD, HABITS, MODEL
rng = random.Random(3)
print(json.dumps([[text for text, author in episode(rng, ${habits}) if author == MODEL] for _ in range(${count})]))`) as string[][];

  it('writes good episodes of a search, a crop and a completion, in the form that the environment reads', () => {
    for (const turns of episodes('GOOD', 100)) {
      expect(turns.map((turn) => parseAction(turn).action)).toEqual(['search', 'bbox', 'search_complete']);
      expect(parseBox(parseAction(turns[1]!).content)).not.toBeNull();
      expect(checkFormat(turns)).toEqual({ pass: true, reason: null });
    }
  });

  it('mixes bad habits into the rest: turns without an action, episodes without a crop, several searches', () => {
    const drawn = episodes('HABITS', 600);
    const share = (holds: (actions: (string | null)[]) => boolean) =>
      drawn.filter((turns) => holds(turns.map((turn) => parseAction(turn).action))).length / drawn.length;
    expect(share((actions) => actions.includes(null))).toBeGreaterThan(0.1);
    expect(share((actions) => !actions.includes('bbox'))).toBeGreaterThan(0.1);
    expect(share((actions) => actions.filter((action) => action === 'bbox').length > 1)).toBeGreaterThan(0.1);
  });
});
