import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadEnvironment } from '../../../environments/self-play-code/load-environment.ts';
import type { SelfPlayEnv } from '../../../environments/self-play-code/self-play-env.ts';
import { contentText } from '../../../src/core/message.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vf-self-play-load-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function file(name: string, lines: readonly unknown[]): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'));
  return path;
}

async function use<T>(
  args: Record<string, unknown>,
  then: (environment: SelfPlayEnv) => T,
  purpose: 'evaluation' | 'training' = 'evaluation',
): Promise<T> {
  const environment = await loadEnvironment(args, { purpose });
  try {
    return then(environment);
  } finally {
    await environment.close();
  }
}

const textOf = (environment: SelfPlayEnv, i: number) => contentText(environment.eval.at(i).prompt[0]!.content);

describe('loadEnvironment of self-play-code', () => {
  it('has held-out tasks of every kind in turn, and begins with its seeds and the identity program', async () => {
    await use({}, ({ eval: rows, train, seeds, settings, baseline }) => {
      expect([rows.at(0).task, rows.at(1).task, rows.at(2).task].toSorted((a, b) => (a < b ? -1 : 1))).toEqual(['code_f', 'code_i', 'code_o']);
      expect(rows.length).toBe(600);
      expect([train.length, seeds[0]!.snippet]).toEqual([91, 'def f(a):\n    return a']);
      expect(rows.at(0).role).toBe('solve');
      expect(rows.at(0).info).toMatchObject({ role: 'solve', kind: rows.at(0).task, record: { kind: rows.at(0).task } });
      expect([settings.rewards, baseline.name]).toEqual(['accuracy', 'last-literal-baseline']);
    });
  });

  it('pays by Absolute Zero in training, by the specification with its YAML', async () => {
    await use(
      { prompt: 'mini' },
      ({ settings }) => expect(settings).toMatchObject({ rewards: 'azr', inputCount: 4, references: 0, critics: 0 }),
      'training',
    );
    const config = { crsp: { problem_types: ['code_o'] }, reward_structure: { length_reward: { max_length: 100 } } };
    await use(
      { config },
      ({ settings }) => expect(settings).toMatchObject({ rewards: 'crsp', critics: 2, kinds: ['code_o'], lengthReward: { maxLength: 100 } }),
      'training',
    );
    await use(
      { config: { reward_structure: { creativity_grading: { enabled: false } } } },
      ({ settings }) => expect(settings.critics).toBe(0),
      'training',
    );
  });

  it("says how many of the user's own tasks are of a kind that is not asked", async () => {
    const tasks = await file('kinds.jsonl', [
      { code: 'def f(a):\n    return a', input: '5', output: '5' },
      { kind: 'code_e', code: 'def f(a):\n    return a / 0', input: '5', output: 'ZeroDivisionError' },
    ]);
    await use({ tasks }, ({ eval: rows, notices }) => {
      expect(rows.length).toBe(2);
      expect(notices).toEqual([`1 of the tasks in ${tasks} is of a kind that is not asked (code_e). Add it to kinds.`]);
    });
    await use({ tasks, kinds: ['code_o', 'code_e'] }, ({ eval: rows, notices }) => expect([rows.length, notices]).toEqual([2, []]));
  });

  it("asks the user's own tasks, as both kinds where they name none", async () => {
    const tasks = await file('mine.jsonl', [
      { code: 'def f(a):\n    return a + 1', input: '1', output: '2' },
      { id: 'own', kind: 'code_i', code: 'def f(a):\n    return a', input: '5', output: '5' },
    ]);
    await use({ tasks }, (environment) => {
      expect([...environment.eval].map(({ exampleId, task }) => [exampleId, task])).toEqual([
        ['task_1-code_i', 'code_i'],
        ['task_1-code_o', 'code_o'],
        ['own', 'code_i'],
      ]);
      expect(textOf(environment, 0)).toContain('```output\n2\n```');
      expect(textOf(environment, 1)).toContain('```input\n1\n```');
      expect([...environment.eval].map(({ answer }) => answer)).toEqual(['1', '2', '5']);
    });
  });

  it.each([
    ['not json', ['{"code": '], 'ine 1 of'],
    ['a list', [[1]], 'is not an object'],
    ['no output', [{ code: 'def f(a): return a', input: '1' }], 'output must be a string that is not blank, got nothing'],
    ['an unknown kind', [{ kind: 'code_x', code: 'x', input: '1', output: '2' }], 'kind must be code_i, code_o, code_f, code_e'],
    ['too few inputs', [{ kind: 'code_f', code: 'x', inputs: ['1'], outputs: ['2'] }], 'at least two inputs and as many outputs, got 1 and 1'],
    [
      'an id twice',
      [
        { id: 'a', kind: 'code_o', code: 'x', input: '1', output: '2' },
        { id: 'a', kind: 'code_o', code: 'y', input: '1', output: '2' },
      ],
      'two tasks with the id "a"',
    ],
    ['no literal', [{ code: 'x', input: '1', output: 'object()' }], 'output must be a Python literal'],
    ['nothing', [''], 'contains no records'],
  ])('names what is wrong with a file of tasks: %s', async (name, lines, problem) => {
    const tasks = await file(`${name}.jsonl`, lines);
    await expect(loadEnvironment({ tasks })).rejects.toThrow(problem);
  });

  it.each([
    [{ kinds: ['code_x'] }, 'kinds must be a list of code_i, code_o, code_f, code_e, none twice'],
    [{ kinds: [] }, 'kinds must be a list'],
    [{ executor: 'wasi' }, 'self-play-code has no argument "executor"'],
    [{ execution: 'docker' }, 'execution must be "wasi", "bubblewrap", "none", or {"executor"'],
    [{ execution: { worker: 2 } }, 'execution must be'],
    [{ memory_mb: 1 }, 'memory_mb must be an integer from 32 to 4096'],
    [{ critics: 2 }, 'critics needs the rewards "crsp", got rewards "accuracy"'],
    [{ dataset: 'nq-minni' }, 'does not exist'],
    [{ dataset: 'nq-mini' }, 'code must be a string'],
    [{ config: { crsp: { sead: 1 } } }, 'crsp.sead is unknown (did you mean seed?)'],
  ])('refuses %j', async (args, problem) => {
    await expect(loadEnvironment(args)).rejects.toThrow(problem);
  });
});
