/** Runs an agent's program for one row, reads its answer and, where the reward is a command, scores what it left. */
import { RewardError } from 'vf-search';
import { AgentError, type AgentFailure, stderrCause, stderrText, tellingLine } from 'vf-search/environment-kit';
import { neededFolders, openProgramFolder, type ProgramEnd, runProgram } from 'vf-search/execution';
import { readAnswer } from './answer.ts';
import type { AgentArguments } from './arguments.ts';
import { POLICY_VARIABLES, type PolicyAddress } from './policy-variables.ts';
import { type AgentRow, askProgram } from './rows.ts';

export interface RunAgentOptions {
  readonly args: Omit<AgentArguments, 'command' | 'reward'>;
  /** As `findCommand` gives it. */
  readonly command: readonly string[];
  /** Null unless the reward is a command. */
  readonly rewardCommand: readonly string[] | null;
  readonly row: AgentRow;
  readonly policy: PolicyAddress;
  /** Variables of this process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** What rewards and state columns read. */
export interface ProgramState extends Record<string, unknown> {
  readonly answer: string;
  /** The other keys of a JSON line. */
  readonly output: Readonly<Record<string, unknown>>;
  /** The end of what it printed there. */
  readonly stderr: string;
  /** From the start of the program to its end. */
  readonly agent_seconds: number;
  /** What the command gave that scores; null without one. */
  readonly command_reward: number | null;
}

/** Throws AgentError if there is no answer; RewardError if the command that scores fails; ExecutionError if a program does not start. */
export async function runAgent(options: RunAgentOptions): Promise<ProgramState> {
  const { args, command, row, policy, signal } = options;
  await using folder = await openProgramFolder();
  const asked = askProgram(command, row);
  const startedAtMs = performance.now();
  const end = await runProgram({
    ...asked,
    folder,
    env: variables(options),
    secrets: secretsOf(options),
    ...args.limits,
    signal,
    sandbox: sandboxOf(options, command, args.network ? 'all' : { server: new URL(policy.baseURL).origin }),
  });
  const seconds = (performance.now() - startedAtMs) / 1000;
  const failure = failureOf(end, args);
  const printed = { stdout: end.stdout, home: folder.work, mostBytes: args.limits.outputBytes };
  const found = failure ?? (await readAnswer(args.answer, printed));
  if (typeof found === 'string') throw errorOf({ reason: 'no_answer', text: `gave no answer. ${found}` }, end.stderr);
  if ('reason' in found) throw errorOf(found, end.stderr);
  return { ...found, stderr: end.stderr, agent_seconds: seconds, command_reward: await commandReward(options, { work: folder.work, ...found }) };
}

function sandboxOf({ args }: RunAgentOptions, command: readonly string[], network: 'none' | 'all' | { readonly server: string }) {
  return args.sandbox === 'none' ? null : { shown: [...neededFolders(command), ...args.show], network };
}

function variables({ args, policy, env }: RunAgentOptions): Record<string, string> {
  const named = args.env.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]));
  const own = Object.entries(POLICY_VARIABLES).map(([name, valueOf]) => [name, valueOf(policy)]);
  return { ...basics(env), ...Object.fromEntries([...named, ...own]) };
}

function basics(env: RunAgentOptions['env']): Record<string, string> {
  return { PATH: env['PATH'] ?? '/usr/bin:/bin', LANG: env['LANG'] ?? 'C.UTF-8' };
}

interface Failure {
  readonly reason: AgentFailure;
  /** Follows "The agent". */
  readonly text: string;
}

function failureOf({ code, signal, excess }: ProgramEnd, { sandbox }: Pick<AgentArguments, 'sandbox'>): Failure | null {
  if (excess !== null) return { reason: excess.reason, text: `was ended. ${excess.detail}` };
  if (signal !== null) return { reason: 'signal', text: `was killed by ${signal}.` };
  if (code === 0) return null;
  const hidden = sandbox !== 'none' && NOT_FOUND.includes(code!) ? ' The sandbox hides what is neither in /usr nor in a folder of "show".' : '';
  return { reason: 'exit_code', text: `ended with exit code ${code}.${hidden}` };
}

/** The message ends with the line of stderr that tells most, and the cause has more of it. */
function errorOf({ reason, text }: Failure, stderr: string): AgentError {
  return new AgentError(`The agent ${text}${stderrText(stderr)}`, { reason, ...stderrCause(stderr) });
}

/** Of a shell whose command is not there or cannot be run. */
const NOT_FOUND = [126, 127];

function secretsOf({ args, policy, env }: RunAgentOptions): string[] {
  return [policy.apiKey, ...args.env.map((name) => env[name] ?? '')];
}

interface Left {
  /** The folder that the agent left. */
  readonly work: string;
  readonly answer: string;
  readonly output: Readonly<Record<string, unknown>>;
}

/** The number that the command prints last, else 1 for exit code 0 and 0 for exit code 1. Null without a command. */
async function commandReward(options: RunAgentOptions, { work, answer, output }: Left): Promise<number | null> {
  const { args, rewardCommand: command, row, env, signal } = options;
  if (command === null) return null;
  await using folder = await openProgramFolder({ work });
  const input = JSON.stringify({ row: { ...row.info.fields, golden_answers: row.info.golden_answers }, answer, output });
  const [sandbox, secrets] = [sandboxOf(options, command, 'none'), secretsOf(options)];
  const end = await runProgram({ command, input: `${input}\n`, folder, env: basics(env), secrets, ...args.limits, sandbox, signal });
  const { code, excess, stdout, stderr } = end;
  const printed = lastLine(stdout);
  const broken = (text: string) => new RewardError(`The reward's command ${text}`, stderrCause(end.stderr));
  if (excess === null && code === 0) {
    if (NUMBER.test(printed)) return Number(printed);
    if (ALMOST_NUMBER.test(printed))
      throw broken(`printed ${JSON.stringify(printed)} last. Print a number such as 0.5 alone, or a line without one.`);
    return 1;
  }
  // An interpreter ends with 1 as well where a script breaks.
  const said = tellingLine(stderr);
  const isVerdict = said === '' || ASSERTION.test(said) || (printed !== '' && !BREAK.test(said));
  if (excess === null && code === 1 && isVerdict) return 0;
  throw broken(`${failureOf(end, args)!.text}${stderrText(stderr)}`);
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)!.trim();
}

const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
/** Meant as a number, and none that can be a reward: without an error it would count as the exit code. */
const ALMOST_NUMBER = /^([a-z_ ]{1,20}[:=] ?)?([+-]?(nan|inf|infinity)|true|false|none|null|[+-]?\d+([.,]\d+)? ?%?)$/i;
/** A script that asserts says so by an exception. */
const ASSERTION = /^AssertionError\b/;
/** What Python, Node or Ruby print of an exception. */
const BREAK = /^(\w+\.)*\w*(Error|Exception|Exit|Interrupt)\b/;
