/** Builds the environment from its arguments. The only module of this folder that loads rows and looks for programs. */
import { AgentEnv, ConfigError, Dataset, exactMatchJudge, type LoadContext, type RoleDeclarations } from 'vf-search';
import { loadQuestions, moduleFunction, SAME_ROWS_NOTICE, vanishingNotices } from 'vf-search/environment-kit';
import { assertSandbox, assertShowable, findCommand, neededFolders, removeOldFolders, sandboxHasProc } from 'vf-search/execution';
import { type AgentArguments, parseArguments } from './arguments.ts';
import { type AgentRow, assertFields, toRow } from './rows.ts';
import { agentRubric, type Score } from './rubric.ts';
import { runAgent } from './run-agent.ts';

const UNPROTECTED =
  'The agent runs as your user: it can read your files and reach your network. "sandbox": "bubblewrap" shows it its own files and the policy only.';

const NO_PROC =
  'The sandbox has no /proc, because this machine lets no sandbox mount it, as in most containers. Programs that look for their own files there, such as Claude Code, do not start.';

/** Plays if the user binds no model to the role. */
const ROLES: RoleDeclarations = { judge: { about: 'scores the answer of the agent', default: 'builtin', builtin: exactMatchJudge() } };

/** Throws ConfigError for unknown or unusable arguments, such as a program that does not exist, and ExecutionError if the sandbox cannot start; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { env = process.env, purpose = 'evaluation', signal = new AbortController().signal }: Partial<LoadContext> = {},
): Promise<AgentEnv<AgentRow>> {
  const parsed = parseArguments(args);
  const { reward, columns, dataset } = parsed;
  const path = env['PATH'] ?? '/usr/bin:/bin';
  const command = findCommand(parsed.command, { path });
  const rewardCommand = reward.kind === 'command' ? findCommand(reward.command, { path, hasScript: false }) : null; // The agent may write it.
  const own = reward.kind === 'module' ? ((await moduleFunction(reward.path, 'reward', 'reward')) as Score) : null;
  const loaded = await questionsOf(parsed, { env, purpose, signal });
  const rows = loaded.rows.map((row) => toRow(row, columns?.answer));
  const trainRows = loaded.trainRows?.map((row) => toRow(row, columns?.answer));
  assertFields(command, [...rows, ...(trainRows ?? [])]);
  await openSandbox(parsed, [command, ...(rewardCommand === null ? [] : [rewardCommand])], signal);
  removeOldFolders();
  const missing = parsed.env.filter((name) => env[name] === undefined);
  const vanishing = reward.kind === 'exact_match' ? vanishingNotices([...loaded.rows, ...(loaded.trainRows ?? [])]) : [];
  return new AgentEnv<AgentRow>({
    id: parsed.name,
    eval: new Dataset(dataset, rows),
    ...(trainRows === undefined ? {} : { train: new Dataset(`${dataset} (train)`, trainRows) }),
    rubric: agentRubric(reward.kind, own),
    run: ({ row, policy, signal: ending }) => runAgent({ args: parsed, command, rewardCommand, row, policy, env, signal: ending }),
    ...(reward.kind === 'judge' ? { roles: ROLES } : {}),
    maxTurns: parsed.maxTurns,
    ...(parsed.maxTokens === null ? {} : { limits: { responseTokens: parsed.maxTokens } }),
    failures: parsed.failures === 'score' ? 'score' : 'fail',
    notices: [
      ...(parsed.sandbox === 'none' ? [UNPROTECTED] : sandboxHasProc() ? [] : [NO_PROC]),
      ...(missing.length === 0 ? [] : [`The agent does not get ${missing.join(', ')}, because no such variable is set.`]),
      ...loaded.notices,
      ...vanishing,
    ],
    provenance: { ...loaded.provenance, arguments: namedValues(parsed) },
  });
}

type Context = Pick<LoadContext, 'env' | 'purpose' | 'signal'>;

async function questionsOf(args: AgentArguments, context: Context): ReturnType<typeof loadQuestions> {
  const { trainDataset: dataset, reward } = args;
  const needsAnswers = reward.kind === 'exact_match';
  if (dataset === null || context.purpose !== 'training') return await loadQuestions({ ...args, needsAnswers }, context);
  const source = { ...args, needsAnswers, dataSplit: null };
  const [held, trained] = await Promise.all([
    loadQuestions(source, { ...context, purpose: 'evaluation' }),
    loadQuestions({ ...source, dataset, dataSplit: args.dataSplit ?? 'train' }, { ...context, purpose: 'evaluation' }),
  ]);
  const isSame = dataset === args.dataset;
  return {
    ...held,
    trainRows: trained.rows,
    notices: [...new Set([...(isSame ? [SAME_ROWS_NOTICE] : []), ...held.notices, ...trained.notices])],
    provenance: { ...held.provenance, training_questions: trained.provenance.questions },
  };
}

/** The values in effect, by their names on the command line. */
function namedValues({
  command,
  answer,
  reward,
  sandbox,
  network,
  failures,
  limits,
  maxTurns,
  env,
}: AgentArguments): Readonly<Record<string, unknown>> {
  return { command, answer, reward: reward.kind, sandbox, network, failures, seconds: limits.seconds, max_turns: maxTurns, env };
}

async function openSandbox({ sandbox, show }: AgentArguments, commands: readonly (readonly string[])[], signal: AbortSignal): Promise<void> {
  if (sandbox === 'none') return;
  for (const path of show) {
    if (!path.startsWith('/'))
      throw new ConfigError(`show takes absolute paths, because the agent sees them under the same names, got ${JSON.stringify(path)}`);
    assertShowable(path);
  }
  for (const command of commands) await assertSandbox({ shown: [...neededFolders(command), ...show], network: 'none' }, signal);
}
