import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadEnvironment } from '../../../environments/agent/environment.ts';
import type { AgentEnv } from '../../../src/core/agent-env.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { whyMissing } from '../../execution/missing-executor.ts';
import type { AgentRow } from '../../../environments/agent/rows.ts';

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
const write = (name: string, text: string) => {
  const path = join(folder.path, name);
  writeFileSync(path, text);
  return path;
};
const lines = (...rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const env = { PATH: '/usr/bin:/bin' };
const agent = write('agent.py', '');
const dataset = write(
  'questions.jsonl',
  lines({ id: 'a', question: 'q1', answer: 'The Paris!', note: 1, answer_aliases: ['Lutetia'] }, { id: 'b', question: 'q2', answer: 'x' }),
);
const tasks = write('tasks.jsonl', lines({ task: 'Mend it.' }));
const load = (args: Readonly<Record<string, unknown>> = {}, purpose: 'training' | 'evaluation' = 'evaluation') =>
  loadEnvironment({ command: ['python3', agent], dataset, ...args }, { env, purpose });

async function rewardOf(environment: AgentEnv<AgentRow>, state: Readonly<Record<string, unknown>>): Promise<number> {
  const { rubric, roles } = environment;
  const row = environment.eval.at(0);
  const models = roles['judge']?.builtin === undefined ? {} : { judge: roles['judge'].builtin };
  const context = {
    row,
    prompt: row.prompt,
    segments: [],
    scoredText: '',
    modelText: 'all that it wrote',
    stop: 'completed',
    state,
    parser: rubric.parser,
  };
  return (await rubric.score({ ...context, models, signal: new AbortController().signal })).reward;
}

describe('the environment agent', () => {
  it('has a row for each question, whose answers and their spellings the agent does not see', async () => {
    const environment = await load();
    expect([...environment.eval].map(({ exampleId, answer, info }) => [exampleId, answer, info])).toEqual([
      ['a', 'The Paris!', { golden_answers: ['The Paris!', 'Lutetia'], fields: { id: 'a', question: 'q1', note: 1 } }],
      ['b', 'x', { golden_answers: ['x'], fields: { id: 'b', question: 'q2' } }],
    ]);
    const nested = write('nested.jsonl', lines({ q: 'q', meta: { gold: 'g' }, reward_model: { ground_truth: 'g' }, other: 2 }));
    const hidden = await load({ dataset: nested, columns: { question: 'q', answer: 'meta.gold' } });
    expect(hidden.eval.at(0).info.fields).toMatchObject({ question: 'q', other: 2 });
    expect(JSON.stringify(hidden.eval.at(0).info.fields)).not.toContain('gold');
  });

  it('trains on the rows of train_dataset and holds those of dataset out', async () => {
    const train = write('train.jsonl', lines({ id: 't', question: 'q', answer: 'x' }));
    const environment = await load({ train_dataset: train, name: 'my-agent' }, 'training');
    expect({ id: environment.id, train: environment.train.at(0).exampleId, held: environment.eval.length }).toEqual({
      id: 'my-agent',
      train: 't',
      held: 2,
    });
    expect((await load({}, 'training')).notices.join()).toContain('also the rows for evaluation');
    await expect(load().then(({ train: rows }) => rows)).rejects.toThrow(ConfigError);
  });

  it('rewards an exact match by default, without case, punctuation and articles; nothing without an answer', async () => {
    const environment = await load();
    const rewards = await Promise.all(['paris', ' lutetia. ', 'It is Paris'].map((answer) => rewardOf(environment, { answer })));
    expect(rewards).toEqual([1, 1, 0]);
    expect(await rewardOf(environment, { failure: 'exit code 1' })).toBe(0);
    expect(environment.rubric.names).toEqual(['exact_match', 'answered', 'agent_seconds']);
  });

  it('rewards by a module, whose rows need no answers', async () => {
    const reward = write('reward.ts', 'export const reward = ({ state, row }: any) => state.answer.length + row.info.golden_answers.length;');
    const environment = await load({ reward, dataset: tasks, columns: { question: 'task' } });
    expect(await rewardOf(environment, { answer: 'four' })).toBe(4);
    await expect(load({ reward: write('none.ts', 'export const other = 1;') })).rejects.toThrow(/does not export a function reward/);
    await expect(load({ reward: './absent.ts' })).rejects.toThrow(/There is no module \.\/absent\.ts \(reward\)/);
  });

  it('rewards by a judge, who is shown the answer', async () => {
    const environment = await load({ reward: 'judge' });
    expect(Object.keys(environment.roles)).toEqual(['judge']);
    expect([await rewardOf(environment, { answer: 'the paris' }), await rewardOf(environment, { answer: 'Rome' })]).toEqual([1, 0]);
  });

  it('gives a command its own reward', async () => {
    const environment = await load({ reward: { command: ['python3', agent] } });
    expect(await rewardOf(environment, { answer: 'x', command_reward: -0.5 })).toBe(-0.5);
    // The progress shows headlines next to the reward.
    expect(environment.rubric.displays?.get('reward')?.isHeadline).toBe(false);
    // A run that was played with another reward, and is scored again.
    await expect(rewardOf(environment, { answer: 'x', command_reward: null })).rejects.toThrow(/reads the folder that the agent left, which is gone/);
    await expect(load({ reward: { command: ['no-such-program'] } })).rejects.toThrow(/No program "no-such-program"/);
  });

  it('refuses arguments that cannot be used, in one line', async () => {
    for (const [args, problem] of [
      [{ command: undefined }, /^agent needs a program to run: -a /],
      [
        { command: 'python agent.py' },
        /^command must be a list of words such as \["python", "my_agent\.py"\]; no shell reads it, got "python agent\.py"$/,
      ],
      [{ command: [] }, /^command must be a list of words/],
      [{ command: ['python3', 'a\0b'] }, /^command must be a list of words/],
      [{ command: ['python3', agent, '{questoin}'] }, /^The command names \{questoin\}, but the rows have note, id, question\./],
      [{ answer: 'last' }, /^answer must be "line", "json" or \{"file": "answer\.txt"\}, got "last"$/],
      [{ answer: { file: '../x' } }, /must lie in the agent's folder/],
      [{ answer: { file: 'x', more: 1 } }, /^answer must be/],
      [{ reward: 'exact' }, /^reward must be "exact_match", "judge", the path of a module/],
      [{ env: ['OPENAI_API_KEY'] }, /^env must be a list of names of environment variables, none of OPENAI_BASE_URL/],
      [{ env: ['A=B'] }, /^env must be/],
      [{ seconds: 0 }, /^seconds must be above 0/],
      [{ memory_mb: 1 }, /^memory_mb must be an integer of at least 16/],
      [{ network: true }, /^network describes a sandbox, but the agent has none\. Add "sandbox": "bubblewrap"/],
      [{ sandbox: 'docker' }, /^sandbox must be "none" or "bubblewrap"/],
      [{ dataset: tasks, columns: { question: 'task' } }, /expected "golden_answers"/],
      [{ retries: 1 }, /^agent has no argument "retries"/],
    ] as const) {
      const error = await load(args).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as Error).message).toMatch(problem);
      expect((error as Error).message).not.toContain('\n');
    }
  });

  it('says that an agent without a sandbox can do what the user can, and which variables it does not get', async () => {
    const { notices } = await load({ env: ['VF_NO_SUCH_VARIABLE'] });
    expect(notices).toEqual([
      expect.stringContaining('"sandbox": "bubblewrap"') as string,
      'The agent does not get VF_NO_SUCH_VARIABLE, because no such variable is set.',
    ]);
  });
});

const missing = await whyMissing('bubblewrap');
describe.skipIf(missing !== null)(`the environment agent in bubblewrap${missing === null ? '' : ` (skipped: ${missing})`}`, () => {
  it('starts the sandbox before the run, and shows no folder that holds more than the program', async () => {
    const shown = join(folder.path, 'shown');
    mkdirSync(shown);
    expect((await load({ sandbox: 'bubblewrap', show: [shown] })).notices).toEqual([]);
    for (const [show, problem] of [
      [[homedir()], /holds more than the program's files/],
      [['/'], /holds more than the program's files/],
      [['relative'], /show takes absolute paths/],
      [[join(folder.path, 'absent')], /does not exist/],
    ] as const)
      await expect(load({ sandbox: 'bubblewrap', show })).rejects.toThrow(problem);
  });

  it('plays a program that is no one’s but the user’s', async () => {
    const own = write('own', '#!/bin/sh\necho hi\n');
    await expect(load({ command: [own] })).rejects.toThrow(/is not executable/);
    chmodSync(own, 0o755);
    expect((await load({ command: [own], sandbox: 'bubblewrap' })).id).toBe('agent');
  });
});
