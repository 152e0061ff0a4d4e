/** A folder with an environment that a judge scores, runs of it, and vf-score as a child process. */
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { WireAskedLine } from '../../../src/schemas/asked-line.ts';
import type { WireMetadata, WireResult } from '../../../src/schemas/results.ts';
import { chatServer, type ChatServer } from '../../models/chat-server.ts';
import { EvalFolder, type Ended } from '../vf-eval-process.ts';

/** Rows that a judge scores, and a group reward. Arguments: `rows`, `group`: a reward that sees the whole group, `answer`: the reference, `hook`: finish asks a model. */
const ENVIRONMENT = `
import { Dataset, exactMatchJudge, groupReward, JudgeRubric, metric, reward, SingleTurnEnv } from 'vf-search';
const about = 'scores how well an answer agrees with the reference answer';
const builtin = exactMatchJudge({ match: 'contains' });
class Judged extends SingleTurnEnv {
  constructor(options, hook) {
    super(options);
    if (hook) this.finish = async ({ row, models, signal }) => {
      const { text } = await models.generator.generate([{ role: 'user', content: 'Answer ' + row.exampleId }], { maxTokens: 4, signal });
      return { generated: text };
    };
  }
}
export function loadEnvironment({ rows = 4, group = false, answer = 'Paris', hook = false, service_token }) {
  const row = (i) => ({ exampleId: 'r' + i, prompt: [{ role: 'user', content: 'Capital of France, ' + i + '?' }], answer });
  const funcs = [
    reward(({ stop }) => Number(stop === 'completed' || stop === 'max_turns_reached'), { name: 'ended', weight: 0.5 }),
    metric(({ state }) => Number(state.turns), { name: 'turns' }),
    metric(({ state }) => String(state.generated ?? '').length, { name: 'generated' }),
    ...(group ? [groupReward((all) => all.map(() => all.length), { name: 'members', weight: 0.1 })] : []),
  ];
  const roles = { judge: { about, default: 'builtin', builtin }, ...(hook ? { generator: { about: 'answers', default: null } } : {}) };
  const data = new Dataset('rows', Array.from({ length: rows }, (_, i) => row(i)));
  return new Judged({ id: 'judged', eval: data, rubric: new JudgeRubric({ funcs }), roles }, hook);
}
`;

const KILL_AT = pathToFileURL(join(import.meta.dirname, 'kill-at.mjs')).href;

export class ScoreFolder extends EvalFolder {
  constructor() {
    super();
    this.file('environments/judged/environment.mjs', ENVIRONMENT);
  }

  /** Plays the environment and returns the folder of the run, by its name `run`. */
  async play(policy: ChatServer, words: readonly string[] = [], variables: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const ended = await this.run(
      ['judged', '-o', 'out', '-b', `${policy.url}/v1`, '-m', 'm', '-t', '8', '--api-client-type', 'chat', ...words],
      variables,
    );
    const [base] = readdirSync(join(this.path, 'out/evals'));
    renameSync(join(this.path, 'out/evals', base!, readdirSync(join(this.path, 'out/evals', base!))[0]!), join(this.path, 'run'));
    rmSync(join(this.path, 'out'), { recursive: true });
    return ended;
  }

  score(...words: readonly string[]): Promise<Ended> {
    return this.run(words, {}, 'vf-score');
  }

  /** vf-score, killed at its n-th change of a file. */
  killedAt(n: number, words: readonly string[]): Promise<Ended> {
    return this.start(words, { NODE_OPTIONS: `--import ${KILL_AT}`, KILL_AT: String(n) }, 'vf-score').ended;
  }

  text(run: string, name: string): string {
    return readFileSync(join(this.path, run, name), 'utf8');
  }

  lines(run: string, name: string): string[] {
    return this.text(run, name).split('\n').slice(0, -1);
  }

  rollouts(run = 'run'): Map<string, WireResult> {
    return new Map(this.lines(run, 'results.jsonl').map((line) => [(JSON.parse(line) as WireResult).rollout_id, JSON.parse(line) as WireResult]));
  }

  metadata(run = 'run'): WireMetadata {
    return JSON.parse(this.text(run, 'metadata.json')) as WireMetadata;
  }

  asked(run = 'run'): Map<string, WireAskedLine['asked']> {
    return new Map(
      this.lines(run, 'asked.jsonl').map((line) => [(JSON.parse(line) as WireAskedLine).rollout_id, (JSON.parse(line) as WireAskedLine).asked]),
    );
  }

  /** Every file of the run with its text. */
  run_files(run = 'run'): Record<string, string> {
    return Object.fromEntries(readdirSync(join(this.path, run)).map((name) => [name, this.text(run, name)]));
  }

  /** Changes every line of the results of a copy of the run. */
  changed(name: string, change: (line: WireResult) => object): string {
    cpSync(join(this.path, 'run'), join(this.path, name), { recursive: true });
    const lines = this.lines('run', 'results.jsonl').map((line) => `${JSON.stringify(change(JSON.parse(line) as WireResult))}\n`);
    writeFileSync(join(this.path, name, 'results.jsonl'), lines.join(''));
    return name;
  }
}

export const policyServer = (): Promise<ChatServer> => chatServer(() => 'Paris, I think.');
export const said = (score: number) => JSON.stringify({ reason: 'so', score });
export const refused = { status: 400, body: { error: { message: 'down' } } };
/** Which row a judge is asked about. */
export const rowIn = (messages: readonly { readonly content: string }[]) => /France, (\d+)\?/.exec(messages.at(-1)!.content)![1]!;
export const oneLine = ({ code, stdout, stderr }: Pick<Ended, 'code' | 'stdout' | 'stderr'>) => ({
  code,
  stdout,
  lines: stderr.trimEnd().split('\n').length,
});
/** What a judge says of a row: little of the second one, more of the others. */
export const verdict = ({ messages }: { readonly messages: readonly { readonly role: string; readonly content: string }[] }) =>
  said(rowIn(messages) === '1' ? 0.25 : 0.5);
