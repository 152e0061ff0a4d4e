/** The generator of mini-python runs with python3 alone: its data set is the committed one, and every row of it is true. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { python, runModule } from '../python.ts';

const ROOT = path.join(import.meta.dirname, '../../..');

function generate(...options: string[]): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'vf-mini-python-'));
  runModule('recipes.coder.tasks', ['--out', folder, ...options]);
  return folder;
}

interface Task {
  id: string;
  kind: string;
  code: string;
  input?: string;
  output?: string;
  inputs?: string[];
  outputs?: string[];
  message?: string;
}
const read = (folder: string, split: string) => readFileSync(path.join(folder, `${split}.jsonl`), 'utf8');
const tasks = (folder: string, split: string) =>
  read(folder, split)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Task);
const statements = (task: Task) => task.code.split(';').length - 1;

describe('recipes/coder/tasks.py', () => {
  it('reproduces datasets/mini-python byte for byte', () => {
    const folder = generate();
    for (const split of ['train', 'heldout']) expect(read(folder, split)).toBe(read(path.join(ROOT, 'datasets/mini-python'), split));
  });

  it('holds out 200 tasks of each kind, of two to five statements in equal parts; no program occurs twice', () => {
    const held = tasks(path.join(ROOT, 'datasets/mini-python'), 'heldout');
    const counts = Object.entries(Object.groupBy(held, (task) => `${task.kind} ${statements(task)}`)).map(([name, group]) => [name, group!.length]);
    expect(Object.fromEntries(counts)).toEqual({
      ...Object.fromEntries(['code_o', 'code_i'].flatMap((kind) => [2, 3, 4, 5].map((length) => [`${kind} ${length}`, 50]))),
      'code_f 2': 100,
      'code_f 3': 100,
    });
    const all = [...held, ...tasks(path.join(ROOT, 'datasets/mini-python'), 'train')];
    expect(new Set(all.map((task) => task.code)).size).toBe(all.length);
    expect(new Set(all.map((task) => task.id)).size).toBe(all.length);
  });

  it('draws other programs for another seed, as many as are asked for', () => {
    const folder = generate('--seed', '7', '--held-out', '20', '--train', '2');
    const [held, committed] = [tasks(folder, 'heldout'), tasks(path.join(ROOT, 'datasets/mini-python'), 'heldout')];
    expect([held.length, tasks(folder, 'train').length]).toEqual([60, 6]);
    const known = new Set(committed.map((task) => task.code));
    expect(held.filter((task) => known.has(task.code)).length).toBeLessThan(20);
    expect(read(generate('--seed', '7', '--held-out', '20'), 'heldout')).toBe(read(folder, 'heldout'));
  });

  it('writes what Python answers, in both splits', () => {
    const wrong = python(`
import json, pathlib
wrong = []
for split in ("train", "heldout"):
    for line in pathlib.Path(${JSON.stringify(ROOT)}, "datasets/mini-python", f"{split}.jsonl").read_text().splitlines():
        task, names = json.loads(line), {}
        exec(task["code"], names)
        pairs = zip(task["inputs"], task["outputs"]) if task["kind"] == "code_f" else [(task["input"], task["output"])]
        wrong += [task["id"] for value, output in pairs if repr(names["f"](eval(value))) != output]
print(json.dumps(wrong))`);
    expect(wrong).toEqual([]);
  });
});

describe('recipes/coder/episodes.py', () => {
  it('pre-trains on no held-out program, and solves every task well where all habits are good', () => {
    const found = python(`
import json, random
from recipes.coder.episodes import draw_episode, function_episode, input_episode, output_episode
from recipes.coder.judge import between, execute
from recipes.coder.tasks import held_out_codes
rng, forbidden = random.Random(3), held_out_codes()
shown = {between(prompt, "code") or between(reply, "code") for prompt, reply in (draw_episode(rng, False, forbidden) for _ in range(1500))}
wrong = []
for _ in range(150):
    prompt, reply = output_episode(rng, True, forbidden)
    wrong += [reply] if execute(between(prompt, "code"), between(prompt, "input")) != between(reply, "answer") else []
    prompt, reply = input_episode(rng, True, forbidden)
    wrong += [reply] if execute(between(prompt, "code"), between(reply, "answer")) != between(prompt, "output") else []
    prompt, reply = function_episode(rng, True, forbidden)
    pairs = [part.split("</input><output>") for part in prompt.split("</output>")[:-1]]
    wrong += [reply] if any(execute(between(reply, "answer"), value.split("<input>")[1]) != output for value, output in pairs) else []
print(json.dumps({"leaked": sorted(shown & forbidden), "wrong": wrong, "programs": len(shown)}))`) as {
      leaked: string[];
      wrong: string[];
      programs: number;
    };
    expect(found).toMatchObject({ leaked: [], wrong: [] });
    expect(found.programs).toBeGreaterThan(500);
  });

  it('solves a fifth of the tasks with the habits of a base, and writes four critiques of five in form', () => {
    const shares = python(`
import json, random
from recipes.coder.episodes import critique_episode, input_episode, output_episode, propose_episode
from recipes.coder.judge import between, execute, read_grade, read_program
rng, none = random.Random(4), frozenset()
def share(holds):
    return sum(holds() for _ in range(500)) / 500
def solves(episode):
    prompt, reply = episode(rng, False, none)
    code, shown = between(prompt, "code"), between(prompt, "input")
    closed = reply.endswith("</answer>")
    return closed and (execute(code, shown) == between(reply, "answer") if shown else execute(code, between(reply, "answer")) == between(prompt, "output"))
print(json.dumps({
    "output": share(lambda: solves(output_episode)),
    "input": share(lambda: solves(input_episode)),
    "programs": share(lambda: read_program(propose_episode(rng, False, none)[1]) is not None),
    "critiques": share(lambda: read_grade(critique_episode(rng, False, none)[1]) is not None),
}))`) as Record<string, number>;
    for (const kind of ['output', 'input']) expect(shares[kind]).toBeGreaterThan(0.15);
    for (const kind of ['output', 'input']) expect(shares[kind]).toBeLessThan(0.45);
    expect(shares['programs']).toBeGreaterThan(0.4);
    expect(shares['programs']).toBeLessThan(0.65);
    expect(shares['critiques']).toBeCloseTo(0.8, 1);
  });
});
