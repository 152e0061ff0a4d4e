/** One rule at every door: a fault of an environment, of its roles or of a setting is refused in the same words by each command and function that takes it. */
import { afterAll, describe, expect, it } from 'vitest';
import { CommandHost } from './command-host.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';
import type { Printed } from './in-process.ts';

const ENVIRONMENT = `
import { Dataset, MultiTurnEnv, readArguments, reward, Rubric, textArgument } from 'vf-search';
const row = (i, more) => ({ exampleId: 'c' + i, prompt: [{ role: 'user', content: 'Q?' }], answer: 'Paris', ...more });
const ROWS = {
  'one id twice': () => [row(0), row(0)],
  'one id as number and text': () => [row(0, { exampleId: 1 }), row(1, { exampleId: '1' })],
  'rows that are not a list': () => ({ length: 2 }),
  'a row that is a text': () => [row(0), 'row'],
  'a prompt that is a text': () => [row(0, { prompt: 'Q?' })],
  'an answer that is a number': () => [row(0, { answer: 7 })],
  'info that is a text': () => [row(0, { info: 'x' })],
  'no rows': () => [],
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
const host = new CommandHost(['--conditions=vf-search-source']);
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
  'vf-eval': (asked) => ['vf-eval', './toy.mjs', ...flags(asked), '-p', 'baseline', '-n', '1', '--plain'],
  'vf-train': (asked) => ['vf-train', './toy.mjs', ...flags(asked), '--embedded', '-m', 'nano-base', '-n', '2', '-r', '2', '--steps', '1', '--plain'],
  'vf-train --dry-run': (asked) => [
    'vf-train',
    './toy.mjs',
    ...flags(asked),
    '--embedded',
    '-m',
    'nano-base',
    '-n',
    '2',
    '-r',
    '2',
    '--steps',
    '1',
    '--dry-run',
  ],
  'vf-serve environment': (asked) => ['vf-serve', 'environment', './toy.mjs', ...flags(asked), '--port', '0'],
  'vf-serve verifiers': (asked) => ['vf-serve', 'verifiers', './toy.mjs', ...flags(asked), '--bind', 'tcp://127.0.0.1:0'],
  'evaluate()': library('evaluate'),
  'train()': library('train'),
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
  const [command, ...words] = { ...DOORS, ...TOKEN_DOORS, ...SAMPLERS }[door]!(asked);
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

describe.each(Object.keys(DOORS))('%s', { timeout: 120_000 }, (door) => {
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

  it('refuses an environment without rows', async () => {
    expect(await said(door, { args: { fault: 'no rows' } })).toEqual({
      code: 2,
      line: expect.stringMatching(
        /^rows has no rows to (evaluate|train on)|^toy has no rows in its split eval\. Give it other arguments, or rows\.$/,
      ),
    });
  });

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
