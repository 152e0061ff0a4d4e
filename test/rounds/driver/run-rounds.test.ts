/** The order of the steps of rounds, the budget of each, and the references that a model finds wrong between them. The stages are the real ones; the trainer writes a trace and trains nothing. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { vfRounds } from '../../../src/cli/commands/vf-rounds.ts';
import { runWords } from '../../../src/cli/options/run-defined.ts';
import { ROUND_COMMANDS } from '../../../src/cli/rounds/run/round-commands.ts';
import type { RoundCommands } from '../../../src/rounds/driver/round-commands.ts';
import { runRounds, type RunRoundsOptions } from '../../../src/rounds/driver/run-rounds.ts';
import { quietContext } from '../../cli/rounds/quiet-context.ts';
import { chatServer } from '../../models/chat-server.ts';
import { rowsText, traceText } from '../trace-lines.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-run-rounds-'));
  writeFileSync(at('rows.jsonl'), rowsText(['blind', 'learned', 'weak', 'wrong']));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string) => join(folder, name);

/** NDCG .5 and judge 0, for all prompts but the learned one. */
const TRACE = ['blind', 'learned', 'weak', 'wrong'].flatMap((prompt) =>
  [0, 1].map((index) => ({ prompt, index, ndcg: 0.5, judge: prompt === 'learned' ? 1 : 0, reward: prompt === 'learned' ? 1 : 0 })),
);

interface Played {
  /** Words of every vf-train, without the rows. */
  readonly trainings: readonly (readonly string[])[];
  /** Of the trainings. */
  readonly names: readonly string[];
  readonly printed: string;
  readonly keys: readonly string[];
}

/** Plays the rounds of `config`; the trainer fails at its `failsAt`-th training. */
async function play(config: string, options: Partial<RunRoundsOptions> & { readonly failsAt?: number } = {}): Promise<Played> {
  writeFileSync(at('rounds.toml'), `environment = "visual-rag"\nrows = "${at('rows.jsonl')}"\noutput = "${at('out')}"\n${config}`);
  const trainings: (readonly string[])[] = [];
  const names: string[] = [];
  let printed = '';
  const commands: RoundCommands = {
    ...ROUND_COMMANDS,
    print: (text) => void (printed += text),
    async run(name, words) {
      if (name === 'vf-rounds') {
        return { status: await runWords(vfRounds, words, quietContext()), stdout: '' };
      }
      trainings.push(words.slice(0, words.indexOf('-a')));
      if (trainings.length === options.failsAt) return { status: 1, stdout: '' };
      const run = join(words[words.indexOf('-o') + 1]!, 'train/one');
      mkdirSync(run, { recursive: true });
      const named = words[words.lastIndexOf('--name') + 1]!;
      names.push(named);
      writeFileSync(join(run, 'run.json'), JSON.stringify({ name: named }));
      writeFileSync(join(run, 'trace.jsonl'), traceText(TRACE));
      return {
        status: 0,
        stdout: `${JSON.stringify({ step: 1, reward: null, held_out: null, rollouts: { finished: TRACE.length }, adapter: null })}\n`,
      };
    },
  };
  const context = { ...quietContext(), commands, variables: {}, onStart: () => {}, onPlayed: () => {} };
  try {
    await runRounds(at('rounds.toml'), { allowChanges: false, dryRun: false, ...options }, context);
  } catch (error) {
    if (options.failsAt === undefined || !/failed with exit code 1/.test(String(error))) throw error;
  }
  const path = at('out/state.json');
  const keys = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { steps: { key: string }[] }).steps.map(({ key }) => key) : [];
  return { trainings, names, printed, keys };
}

const idsIn = (name: string) =>
  readFileSync(at(name), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { id: string }).id);

const own = (...flags: readonly string[]) => ['visual-rag', '--preset', 'laptop', ...flags];
const COMMON = 'flags = ["--preset", "laptop"]\n';
const THREE = `${COMMON}[[focused]]
flags = ["-n", "2", "-r", "8"]
arguments = { max_turns = 7 }
[[focused]]
flags = ["-n", "3", "-r", "16"]
arguments = { max_turns = 15 }
[[focused]]
flags = ["-n", "4", "-r", "16"]
arguments = { max_turns = 32 }
[focus]
threshold = 1
`;

describe('runRounds()', () => {
  it('gives each focused round its own budget, plans it with --dry-run, and goes on with that of the round in which it failed', async () => {
    const planned = async () => (await play(THREE, { dryRun: true })).printed.trimEnd().split('\n').slice(1);
    const cells = (await planned()).map((line) => line.split(/ {2,}/));
    expect(existsSync(at('out'))).toBe(false);
    expect(cells.filter(([key]) => /phase1|focused/.test(key!))).toEqual([
      ['1/phase1', 'train 4 rows', '7 x 8', '20'],
      ['1/focused', 'train bucket A, [[focused]] 1', '2 x 8', '20', '{"max_turns":7}'],
      ['2/focused', 'train the hard prompts, [[focused]] 2', '3 x 16', '20', '{"max_turns":15}'],
      ['3/focused', 'train the hard prompts, [[focused]] 3', '4 x 16', '20', '{"max_turns":32}'],
    ]);
    const failed = await play(THREE, { failsAt: 3 });
    expect(failed.trainings).toEqual([own(), own('-n', '2', '-r', '8'), own('-n', '3', '-r', '16')]);
    const done = (await planned()).flatMap((line) => (line.endsWith('done') ? [line.split(' ')[0]] : []));
    expect(done).toEqual(failed.keys);
    // A fourth round has the last table.
    const { trainings, keys } = await play(`rounds = 4\n${THREE}`);
    expect(trainings).toEqual([own('-n', '3', '-r', '16'), own('-n', '4', '-r', '16'), own('-n', '4', '-r', '16')]);
    // Without demonstrations there are no supervised steps.
    const names = cells.map(([key]) => key!).filter((key) => !key.endsWith('/sft'));
    expect(keys).toEqual([...names, '4/focus', '4/focused', '4/extract', '4/finalize']);
  });

  it('names each training by its step, after the folder of the rounds or the name among its flags, in its report, too', async () => {
    const { names, printed } = await play(COMMON);
    expect(names).toEqual(['out: 1/phase1', 'out: 1/focused']);
    const [head, ...rows] = printed.split('\n').map((line) => line.split(/ {2,}/));
    expect(head).toEqual(['stage', 'in', 'out', 'run', 'rule']);
    expect(rows.slice(0, 3).map(([stage, , , run]) => [stage, run])).toEqual([
      ['train', 'out: 1/phase1'],
      ['bucket', 'out: 1/phase1'],
      ['train', 'out: 1/focused'],
    ]);
    rmSync(at('out'), { recursive: true });
    expect((await play(`${COMMON}[focused]\nflags = ["--name", "wide"]\n`)).names).toEqual(['out: 1/phase1', 'wide: 1/focused']);
  });

  it('leaves out of the next round the rows whose reference a vetter finds wrong, once', async () => {
    let asked = 0;
    await using server = await chatServer(({ messages, max_tokens: limit }) => {
      asked += 1;
      expect(limit).toBe(4096);
      const { question } = JSON.parse(messages.at(-1)!.content) as { question: string };
      return JSON.stringify({ verdict: question.includes('wrong') ? 'GT_ERROR' : 'RETRIEVAL_ERROR', reason: 'seen on the page' });
    });
    const verify = `[verify]\nrole = ["vetter=m@${server.url}/v1", "vetter.max_tokens=4096"]\n[focus]\nthreshold = 0.3\n`;
    const config = `rounds = 2\n${COMMON}${verify}`;
    const { keys } = await play(config);
    expect(keys.slice(2, 7)).toEqual(['1/focused', '1/extract', '1/finalize', '2/verify', '2/focus']);
    expect(idsIn('out/round-2/data/round-2.jsonl')).toEqual(['blind', 'weak']);
    expect(asked).toBe(3);
    // A third round verifies the rows of the second.
    await play(config.replace('rounds = 2', 'rounds = 3'));
    expect(idsIn('out/round-3/data/round-3.jsonl')).toEqual(['blind', 'weak']);
    expect(asked).toBe(5);
  });

  it('takes only the hard rows of bucket A with [review] threshold', async () => {
    writeFileSync(at('list.jsonl'), '');
    const review = (more: string) => `${COMMON}[review]\nexclude = ["${at('list.jsonl')}"]\n${more}`;
    await play(review('threshold = 0.2\nmeasure = "reward"\n'));
    expect(idsIn('out/round-1/data/round-1.jsonl')).toEqual(['blind', 'weak', 'wrong']);
  });

  it.each([
    [
      'a table of a round too many',
      `rounds = 2\n${THREE}`,
      'has 3 tables [[focused]], one for each round, but rounds = 2; leave rounds out or raise it',
    ],
    ['a list without tables', `focused = []\n${COMMON}`, 'must be a table, or a list of tables'],
    ['an unknown flag of one round', THREE.replace('"-n", "3"', '"--nn", "3"'), /The training \[\[focused\]\] 2 of .*: Unknown flag --nn/],
    [
      'an argument that one round lacks',
      THREE.replace('max_turns = 32', 'max_turnz = 32'),
      /arguments of the training \[\[focused\]\] 3 of .*max_turnz/,
    ],
    ['a vetter without a model', `${COMMON}[verify]\n`, /\[verify\] of .* names no model; set role = "vetter=MODEL@URL"/],
    [
      'an option that verify does not have',
      `${COMMON}[verify]\nlowest = 1\n`,
      /Unknown key "lowest" in \[verify\] of .*known are role, config, low, found, measure/,
    ],
  ])('refuses %s before anything is trained', async (_, config, message) => {
    await expect(play(config)).rejects.toThrow(message);
    expect(existsSync(at('out'))).toBe(false);
  });
});
