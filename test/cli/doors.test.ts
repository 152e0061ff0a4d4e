/** One rule at every door: a fault of an environment, of its roles or of a setting is refused in the same words by each command and function that takes it. */
import { globSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CommandHost } from './command-host.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';
import type { Printed } from './in-process.ts';

const ENVIRONMENT = `
import { Dataset, MultiTurnEnv, readArguments, reward, Rubric, textArgument } from 'vf-search';
const row = (i, more) => ({ exampleId: 'c' + i, prompt: [{ role: 'user', content: 'Q?' }], answer: 'Paris', ...more });
const LONG = { prompt: [{ role: 'user', content: 'Who? '.repeat(3000) }] };
const ROWS = {
  'one id twice': () => [row(0), row(0)],
  'one id as number and text': () => [row(0, { exampleId: 1 }), row(1, { exampleId: '1' })],
  'rows that are not a list': () => ({ length: 2 }),
  'a row that is a text': () => [row(0), 'row'],
  'a prompt that is a text': () => [row(0, { prompt: 'Q?' })],
  'an answer that is a number': () => [row(0, { answer: 7 })],
  'info that is a text': () => [row(0, { info: 'x' })],
  'no rows': () => [],
  'prompts beyond the window': () => [row(0, LONG), row(1, LONG)],
};
const OPTIONS = {
  'an empty stop string': { stop: ['</a>', ''] },
  'a stop string that is a number': { stop: [7] },
  'stop strings that are a text': { stop: '</a>' },
  'a limit below 0': { limits: { responseTokens: -1 } },
  'half a turn': { maxTurns: 1.5 },
  'five stop strings': { stop: ['a', 'b', 'c', 'd', 'e'] },
  'a judge': { roles: { judge: { about: 'judges', default: null } } },
};
class Toy extends MultiTurnEnv {
  setupState() { return { turns: 0 }; }
  envResponse() { return { done: true }; }
}
export function loadEnvironment(args) {
  const { fault } = readArguments('toy', { fault: textArgument }, args);
  const rows = new Dataset('rows', ROWS[fault]?.() ?? [row(0), row(1)]);
  return new Toy({ id: 'toy', eval: rows, train: rows, rubric: new Rubric({ funcs: [reward(() => 1, { name: 'one' })] }), ...OPTIONS[fault] });
}
`;

const folder = new TemporaryFolder();
folder.write('toy.mjs', ENVIRONMENT);
folder.write('rows.jsonl', '{"id":"c0"}');
const host = new CommandHost(['--conditions=vf-search-source']);
/** A run without a fault, for vf-score and vf-export. */
let run = '';
beforeAll(async () => {
  await host.run('vf-eval', [...EVALUATION, '-o', 'runs'], { cwd: folder.path, env: { HOME: folder.path } });
  [run = ''] = globSync('runs/evals/*/*', { cwd: folder.path });
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

interface Asked {
  readonly args?: Readonly<Record<string, unknown>>;
  /** Model of each role. */
  readonly roles?: Readonly<Record<string, string>>;
  /** Fields of the sampling request. */
  readonly sampling?: Readonly<Record<string, unknown>>;
}

type Door = (asked: Asked) => readonly [command: string, ...words: string[]];

const EVALUATION = ['./toy.mjs', '-p', 'baseline', '-n', '1', '--plain'];
const TRAINING = ['./toy.mjs', '--embedded', '-m', 'nano-base', '-n', '2', '-r', '2', '--steps', '1'];

const flags = ({ args = {}, roles = {} }: Asked) => [
  '-a',
  JSON.stringify(args),
  ...Object.entries(roles).flatMap(([role, model]) => ['--role', `${role}=${model}`]),
];
const library =
  (name: string): Door =>
  ({ args = {}, ...rest }) => ['../../test/cli/library-door', name, JSON.stringify({ environment: './toy.mjs', args, ...rest })];

/** Each takes an environment. */
const DOORS: Readonly<Record<string, Door>> = {
  'vf-eval': (asked) => ['vf-eval', ...EVALUATION, ...flags(asked)],
  'vf-train': (asked) => ['vf-train', ...TRAINING, '--plain', ...flags(asked)],
  'vf-train --dry-run': (asked) => ['vf-train', ...TRAINING, '--dry-run', ...flags(asked)],
  'vf-serve environment': (asked) => ['vf-serve', 'environment', './toy.mjs', ...flags(asked), '--port', '0'],
  'vf-serve verifiers': (asked) => ['vf-serve', 'verifiers', './toy.mjs', ...flags(asked), '--bind', 'tcp://127.0.0.1:0'],
  'evaluate()': library('evaluate'),
  'train()': library('train'),
  'openGrpoTrainer()': library('openGrpoTrainer'),
};

/** Those that ask no model for a role before they need it. */
const ROLELESS_DOORS: Readonly<Record<string, Door>> = {
  'vf-score': (asked) => ['vf-score', run, '--env', './toy.mjs', ...flags(asked)],
  'startEpisode()': library('startEpisode'),
};

/** Those whose policy is a server by token ids. */
const TOKEN_DOORS: Readonly<Record<string, Door>> = {
  'vf-eval -p embedded': (asked) => ['vf-eval', './toy.mjs', ...flags(asked), '-p', 'embedded', '-m', 'nano-base', '-n', '1', '--plain'],
  'vf-train by tokens': DOORS['vf-train']!,
  'vf-train --dry-run by tokens': DOORS['vf-train --dry-run']!,
};

/** Those that take the fields of a sampling request. */
const SAMPLERS: Readonly<Record<string, Door>> = {
  'vf-eval -S': ({ sampling }) => [...DOORS['vf-eval']!({}), '-S', JSON.stringify(sampling)],
  'evaluate({ sampling })': library('evaluate'),
};

async function said(door: string, asked: Asked): Promise<Pick<Printed, 'code'> & { readonly line: string }> {
  const [command, ...words] = { ...DOORS, ...ROLELESS_DOORS, ...TOKEN_DOORS, ...SAMPLERS }[door]!(asked);
  return lineOf(command, words);
}

async function lineOf(command: string, words: readonly string[]): Promise<Pick<Printed, 'code'> & { readonly line: string }> {
  const { code, stderr } = await host.run(command, words, { cwd: folder.path, env: { HOME: folder.path } });
  // Without the name of the command, which comes first.
  return {
    code,
    line: stderr
      .trim()
      .split('\n')
      .at(-1)!
      .replace(/^[\w-]+: /, ''),
  };
}

describe.each(Object.keys({ ...DOORS, ...ROLELESS_DOORS }))('%s', { timeout: 120_000 }, (door) => {
  it.each([
    ['one id twice', 'The rows 0 and 1 both have the id "c0" in rows. Give each its own exampleId.'],
    ['one id as number and text', 'The rows 0 and 1 both have the id "1" in rows. Give each its own exampleId.'],
    ['rows that are not a list', 'The rows of rows must be a list, got an object'],
    [
      'a row that is a text',
      'Row at position 1 of rows cannot be played: it must be an object with exampleId and prompt, got "row". Correct the row.',
    ],
    ['a prompt that is a text', 'Row "c0" of rows cannot be played: prompt must be a list of messages, got "Q?". Correct the row.'],
    ['an answer that is a number', 'Row "c0" of rows cannot be played: answer must be a string, got 7. Correct the row.'],
    ['info that is a text', 'Row "c0" of rows cannot be played: info must be an object, got "x". Correct the row.'],
    ['an empty stop string', 'The environment toy cannot be played: stop[1] must be a non-empty string, got "".'],
    ['a stop string that is a number', 'The environment toy cannot be played: stop[0] must be a non-empty string, got 7.'],
    ['stop strings that are a text', 'The environment toy cannot be played: stop must be a list of strings, got "</a>".'],
    ['a limit below 0', 'The environment toy cannot be played: limits.responseTokens must be an integer of at least 0 or Infinity, got -1.'],
    ['half a turn', 'maxTurns must be an integer of at least 1, got 1.5'],
  ])('refuses %s', async (fault, line) => {
    expect(await said(door, { args: { fault } })).toEqual({ code: 2, line });
  });

  it('refuses an argument that the environment does not have', async () => {
    expect(await said(door, { args: { falt: 'x' } })).toEqual({
      code: 2,
      line: 'toy has no argument "falt" (did you mean fault?). Its arguments are fault.',
    });
  });
});

// The rows that openGrpoTrainer() plays are given to it.
describe.each(Object.keys(DOORS).filter((door) => door !== 'openGrpoTrainer()'))('%s', { timeout: 120_000 }, (door) => {
  it('refuses an environment without rows', async () => {
    expect(await said(door, { args: { fault: 'no rows' } })).toEqual({
      code: 2,
      line: expect.stringMatching(
        /^rows has no rows to (evaluate|train on)|^toy has no rows in its split eval\. Give it other arguments, or rows\.$/,
      ),
    });
  });
});

describe.each(Object.keys(DOORS))('%s', { timeout: 120_000 }, (door) => {
  it('refuses a role that no model plays, and a role that the environment does not have', async () => {
    expect(await said(door, { args: { fault: 'a judge' } })).toEqual({
      code: 2,
      line: expect.stringMatching(/^The environment has a role judge \(judges\), but no model is bound to it\. Bind one/),
    });
    expect(await said(door, { args: { fault: 'a judge' }, roles: { jugde: 'policy' } })).toEqual({
      code: 2,
      line: expect.stringMatching(/^The environment has no role jugde.*did you mean judge.*Its role is judge\./),
    });
  });
});

describe.each(Object.keys(TOKEN_DOORS))('%s', { timeout: 120_000 }, (door) => {
  it('refuses more stop strings than a server by token ids takes', async () => {
    expect(await said(door, { args: { fault: 'five stop strings' } })).toEqual({
      code: 2,
      line: expect.stringMatching(/^toy stops at 5 strings, and \S+ takes at most 4, as vLLM does\. Stop at fewer/),
    });
  });
});

describe.each(Object.keys(SAMPLERS))('%s', { timeout: 120_000 }, (door) => {
  it.each([
    [{ temperature: -1 }, 'must be a number from 0 to 100, got -1'],
    [{ top_p: 0 }, 'must be a number above 0 and up to 1, got 0'],
    [{ top_p: 1.5 }, 'must be a number above 0 and up to 1, got 1.5'],
    [{ max_tokens: 0 }, 'must be an integer of at least 1, got 0'],
    [{ max_tokens: 1.5 }, 'must be an integer of at least 1, got 1.5'],
    [{ top_k: 1.5 }, 'must be an integer of at least -1, got 1.5'],
    [{ min_p: 2 }, 'must be a number from 0 to 1, got 2'],
    [{ repetition_penalty: 0 }, 'must be a number above 0, got 0'],
  ])('refuses %j before the first request', async (sampling, problem) => {
    const { code, line } = await said(door, { sampling });
    expect([code, line.replace(/^(\w+) in (-S|sampling) /, '$1 ')]).toEqual([2, `${Object.keys(sampling)[0]!} ${problem}`]);
  });

  it('refuses a field that is misspelled', async () => {
    expect((await said(door, { sampling: { temprature: 1 } })).line).toMatch(/has no "temprature"; did you mean temperature\?$/);
  });
});

const set = (value: string) => ['--set', value];
const trains = (...words: readonly string[]) => ['vf-train', ...TRAINING, ...words];
const round = (setting: string) => {
  folder.write(
    `${setting}.toml`,
    `environment = "./toy.mjs"\nrows = "rows.jsonl"\nflags = ${JSON.stringify([...TRAINING.slice(1), ...set(setting)])}\n`,
  );
  return ['vf-rounds', 'run', `${setting}.toml`, '--dry-run'];
};
const pipeline = (setting: string) => {
  folder.write(
    'p.yaml',
    'servers: {benchmark: servers/benchmark, generation: servers/generation}\npipeline: [benchmark.get_data, {generation.generate: {input: {prompt_ls: q_ls}}}]\n',
  );
  folder.write('questions.jsonl', '{"question": "Q?", "golden_answers": ["Paris"]}');
  return ['vf-pipeline', 'check', 'p.yaml', ...set(setting), ...set('benchmark.benchmark.path=questions.jsonl')];
};
const calls = (name: string, options: object) => [
  '../../test/cli/library-door',
  name,
  JSON.stringify({ environment: './toy.mjs', args: {}, ...options }),
];
const serves = (...words: readonly string[]) => ['vf-serve', 'environment', './toy.mjs', '--port', '0', ...words];

describe('a number of things at once', { timeout: 120_000 }, () => {
  it.each<[string, () => readonly string[]]>([
    ['vf-eval -c', () => ['vf-eval', ...EVALUATION, '-c', '0']],
    ['vf-train', () => trains(...set('rollouts.max_concurrent=0'))],
    ['vf-train --dry-run', () => trains(...set('rollouts.max_concurrent=0'), '--dry-run')],
    ['vf-rounds run', () => round('rollouts.max_concurrent=0')],
    ['vf-score --max-scoring', () => ['vf-score', run, '--max-scoring', '0']],
    ['vf-export --best', () => ['vf-export', run, '-o', '-', '--best', '0']],
    ['vf-serve environment --max-sessions', () => serves('--max-sessions', '0')],
    ['vf-pipeline, generation of UltraRAG 2.0', () => [...pipeline('generation.concurrency=0'), '--tools', '2.0']],
    [
      'vf-pipeline, generation of UltraRAG 3.0',
      () => [
        ...pipeline('generation.backend_configs.openai.concurrency=0'),
        '--tools',
        '3.0',
        ...set('benchmark.benchmark.key_map={q_ls: question}'),
      ],
    ],
    ['evaluate()', () => calls('evaluate', { maxConcurrent: 0 })],
    ['train()', () => calls('train', { rollouts: { maxConcurrent: 0 } })],
    ['openGrpoTrainer()', () => calls('openGrpoTrainer', { rollouts: { maxConcurrent: 0 } })],
  ])('of 0 is refused by %s', async (_, words) => {
    const [command, ...rest] = words() as [string, ...string[]];
    const { code, line } = await lineOf(command, rest);
    expect({ code, line }).toEqual({ code: 2, line: expect.stringMatching(/must be an integer (of at least 1|from 1 to [\d,]+), got 0\.?$/) });
  });
});

describe('a deadline', { timeout: 120_000 }, () => {
  it.each<[string, () => readonly string[]]>([
    ['vf-eval --timeout', () => ['vf-eval', ...EVALUATION, '--timeout', '-1']],
    ['vf-train', () => trains(...set('rollouts.timeout_s=-1'))],
    ['vf-train --dry-run', () => trains(...set('rollouts.scoring_timeout_s=-1'), '--dry-run')],
    ['vf-rounds run', () => round('rollouts.timeout_s=-1')],
    ['vf-score --scoring-timeout', () => ['vf-score', run, '--scoring-timeout', '-1']],
    ['vf-serve environment --idle-timeout', () => serves('--idle-timeout', '-1')],
    ['vf-serve environment --step-timeout', () => serves('--step-timeout', '-1')],
    ['vf-pipeline run --max-wait', () => ['vf-pipeline', 'run', 'p.yaml', '--max-wait', '-1']],
    ['evaluate()', () => calls('evaluate', { timeoutMs: -1 })],
    ['evaluate({ scoringTimeoutMs })', () => calls('evaluate', { scoringTimeoutMs: -1 })],
    ['train()', () => calls('train', { rollouts: { timeoutS: -1 } })],
    ['openGrpoTrainer()', () => calls('openGrpoTrainer', { rollouts: { timeoutS: -1 } })],
  ])('of -1 is refused by %s', async (_, words) => {
    const [command, ...rest] = words() as [string, ...string[]];
    const { code, line } = await lineOf(command, rest);
    const range = /must be (a number|an integer) (above 0 or null|of at least 0|from \d+ to [\d,]+), got -1\.?$/;
    expect({ code, line }).toEqual({ code: 2, line: expect.stringMatching(range) });
  });
});

describe('prompts beyond the window', { timeout: 120_000 }, () => {
  it.each(['vf-eval -p embedded', 'vf-train by tokens', 'vf-train --dry-run by tokens', 'train()', 'openGrpoTrainer()'])(
    'are a failure of %s, with both lengths and the remedies, and no zero',
    async (door) => {
      const [command, ...words] = { ...DOORS, ...TOKEN_DOORS }[door]!({ args: { fault: 'prompts beyond the window' } });
      const { code, stdout, stderr } = await host.run(command, words, { cwd: folder.path, env: { HOME: folder.path } });
      expect(code).not.toBe(0);
      expect(`${stdout}${stderr}`.replaceAll(/\s+/g, ' ')).toMatch(
        /The prompt has 6,015 tokens, and the model's window 2,048\.? Use a model with a larger window, or raise the limits /,
      );
      expect(stdout).not.toMatch(/^reward +0|^reward .*\b0\.000/m);
    },
  );
});
