/** The arguments of `loadEnvironment`, in snake_case or camelCase, with their defaults. Unknown or unusable ones are a ConfigError. */
import { choiceArgument, ConfigError, flagArgument, integerArgument, numberArgument, readArguments, textArgument } from 'vf-search';
import { type ArgumentKind, columnsArgument, isObject } from 'vf-search/environment-kit';
import { PROGRAM_VARIABLES } from 'vf-search/execution';
import { type AnswerSource, answerFileProblem } from './answer.ts';
import { POLICY_VARIABLES } from './policy-variables.ts';

/** `exact_match`: a golden answer. `judge`: the model of this role. A module that exports `reward`. A command that is run where the agent was. */
export type RewardSource =
  | { readonly kind: 'exact_match' | 'judge' }
  | { readonly kind: 'module'; readonly path: string }
  | { readonly kind: 'command'; readonly command: readonly string[] };

export interface AgentArguments {
  /** The environment's id in results. */
  readonly name: string;
  readonly command: readonly string[];
  readonly dataset: string;
  /** The rows for training. Null: those of the split `train` of `dataset`. */
  readonly trainDataset: string | null;
  readonly columns?: { readonly question?: string; readonly answer?: string; readonly id?: string };
  readonly dataSplit: string | null;
  readonly dataLimit: number | null;
  readonly answer: AnswerSource;
  readonly reward: RewardSource;
  /** Names of variables that the agent gets too. */
  readonly env: readonly string[];
  readonly sandbox: 'none' | 'bubblewrap';
  readonly network: boolean;
  readonly show: readonly string[];
  readonly failures: 'error' | 'score';
  readonly limits: ProgramLimits;
  readonly maxTurns: number;
  /** Null: the server's. */
  readonly maxTokens: number | null;
}

interface ProgramLimits {
  readonly seconds: number;
  readonly memoryBytes: number;
  readonly outputBytes: number;
}

const MIB = 2 ** 20;
const ID = /^[a-z][a-z\d]*(-[a-z\d]+)*$/;
const NAME = /^[A-Za-z_]\w*$/;
/** Variables that the agent gets from here. */
const OWN_VARIABLES = [...Object.keys(POLICY_VARIABLES), ...PROGRAM_VARIABLES];

const isWords = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === 'string' && !word.includes('\0')) && value[0] !== '';
const hasOnly = (value: unknown, key: string): value is Readonly<Record<string, unknown>> => isObject(value) && Object.keys(value).join() === key;

const words: ArgumentKind<readonly string[]> = { expected: 'a list of words such as ["python", "my_agent.py"]; no shell reads it', accepts: isWords };
const names: ArgumentKind<readonly string[]> = {
  expected: `a list of names of environment variables, none of ${OWN_VARIABLES.join(', ')}`,
  accepts: (v): v is readonly string[] =>
    Array.isArray(v) && v.every((name) => typeof name === 'string' && NAME.test(name) && !OWN_VARIABLES.includes(name)),
};
const paths: ArgumentKind<readonly string[]> = {
  expected: 'a list of paths',
  accepts: (v): v is readonly string[] => Array.isArray(v) && v.every((path) => typeof path === 'string' && path !== ''),
};
const answer: ArgumentKind<'line' | 'json' | { readonly file: string }> = {
  expected: '"line", "json" or {"file": "answer.txt"}',
  accepts: (v): v is 'line' | 'json' | { readonly file: string } =>
    v === 'line' || v === 'json' || (hasOnly(v, 'file') && typeof v['file'] === 'string'),
};
const reward: ArgumentKind<string | { readonly command: readonly string[] }> = {
  expected: '"exact_match", "judge", the path of a module such as "./reward.ts", or {"command": ["python", "score.py"]}',
  accepts: (v): v is string | { readonly command: readonly string[] } =>
    v === 'exact_match' ||
    v === 'judge' ||
    (typeof v === 'string' && /[\\/]|\.[cm]?[jt]s$/.test(v)) ||
    (hasOnly(v, 'command') && isWords(v['command'])),
};

const ARGUMENTS = {
  name: { expected: 'lower-case words joined by hyphens, such as my-agent', accepts: (v): v is string => typeof v === 'string' && ID.test(v) },
  command: words,
  dataset: textArgument,
  train_dataset: textArgument,
  columns: columnsArgument,
  data_split: textArgument,
  data_limit: integerArgument(1),
  answer,
  reward,
  env: names,
  sandbox: choiceArgument('none', 'bubblewrap'),
  network: flagArgument,
  show: paths,
  failures: choiceArgument('error', 'score'),
  seconds: numberArgument,
  memory_mb: integerArgument(16),
  output_kb: integerArgument(1),
  max_turns: integerArgument(1),
  max_tokens: integerArgument(1),
} as const satisfies Record<string, ArgumentKind<unknown>>;

/** Most seconds that a timer can wait. */
const MOST_SECONDS = 2_000_000;

export function parseArguments(args: Readonly<Record<string, unknown>>): AgentArguments {
  const given = readArguments('agent', ARGUMENTS, args);
  const { command, dataset, columns, sandbox = 'none', network = false, show = [], answer: source = 'line', seconds = 300 } = given;
  if (command === undefined)
    throw new ConfigError(`agent needs a program to run: -a '{"command": ["python", "my_agent.py"], "dataset": "questions.jsonl"}'`);
  if (seconds <= 0 || seconds > MOST_SECONDS) throw new ConfigError(`seconds must be above 0 and at most ${MOST_SECONDS}, got ${seconds}`);
  if (sandbox === 'none' && (network || show.length > 0))
    throw new ConfigError(
      `${network ? 'network' : 'show'} describes a sandbox, but the agent has none. Add "sandbox": "bubblewrap", or leave it out`,
    );
  const problem = typeof source === 'string' ? null : answerFileProblem(source.file);
  if (problem !== null) throw new ConfigError(problem);
  return {
    name: given.name ?? 'agent',
    command,
    dataset: dataset ?? 'nq-mini',
    trainDataset: given.train_dataset ?? null,
    ...(columns === undefined ? {} : { columns }),
    dataSplit: given.data_split ?? null,
    dataLimit: given.data_limit ?? null,
    answer: source,
    reward: rewardSource(given.reward ?? 'exact_match'),
    env: given.env ?? [],
    sandbox,
    network,
    show,
    failures: given.failures ?? 'error',
    limits: { seconds, memoryBytes: (given.memory_mb ?? 4096) * MIB, outputBytes: (given.output_kb ?? 1024) * 1024 },
    maxTurns: given.max_turns ?? 50,
    maxTokens: given.max_tokens ?? null,
  };
}

function rewardSource(given: string | { readonly command: readonly string[] }): RewardSource {
  if (typeof given !== 'string') return { kind: 'command', command: given.command };
  return given === 'exact_match' || given === 'judge' ? { kind: given } : { kind: 'module', path: given };
}
