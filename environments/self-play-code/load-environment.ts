/** Builds the environment from its arguments. The only module of this folder that loads tasks and opens an executor. */
import { ConfigError, type LoadContext } from 'vf-search';
import { openExecutor } from 'vf-search/execution';
import { parseArguments, type SelfPlayArguments } from './arguments.ts';
import { loadTasks, type NamedTask } from './load-tasks.ts';
import { IDENTITY } from './records.ts';
import { type GivenProgram, SelfPlayEnv } from './self-play-env.ts';

/** The commit of LeapLabTHU/Absolute-Zero-Reasoner whose rules this environment follows. */
const UPSTREAM_COMMIT = 'a82124e';

/** Throws ConfigError for unknown or unusable arguments, and ExecutionError if the executor cannot start; the README lists the arguments. */
export async function loadEnvironment(
  args: Readonly<Record<string, unknown>> = {},
  { purpose = 'evaluation', env = process.env, signal }: Partial<LoadContext> = {},
): Promise<SelfPlayEnv> {
  const parsed = await parseArguments(args, purpose);
  const { settings, dataset, limits, responseTokens, named, execution } = parsed;
  const { heldOut, seeds, leftOut, provenance } = await tasksOf(parsed, { env, ...(signal === undefined ? {} : { signal }) });
  const given = parsed.proposals === null ? null : await givenPrograms(parsed.proposals);
  const executor = await openExecutor(execution.executor, { workers: execution.workers });
  const { name, isolation, python } = executor.capabilities;
  try {
    return new SelfPlayEnv({
      settings,
      heldOut,
      seeds: [IDENTITY_TASK, ...seeds],
      ...(given === null ? {} : { given }),
      executor,
      limits,
      ...(responseTokens === null ? {} : { responseTokens }),
      name: parsed.tasks ?? dataset,
      notices: [...(isolation === 'none' ? [UNPROTECTED] : []), ...parsed.notices, ...leftOut],
      provenance: {
        upstream: `LeapLabTHU/Absolute-Zero-Reasoner@${UPSTREAM_COMMIT}`,
        ...provenance,
        executor: { name, isolation, python },
        arguments: named,
      },
    });
  } catch (error) {
    await executor.close();
    throw error;
  }
}

const UNPROTECTED =
  'The executor "none" runs what the model writes as your user: it can read your files and reach your network. Use it only inside a container or a virtual machine.';

/** The identity program starts the self-play: it is the one task that the policy need not invent. */
const IDENTITY_TASK: NamedTask = { id: 'identity', step: null, record: { kind: 'code_o', ...IDENTITY, imports: [] } };

interface Tasks {
  readonly heldOut: readonly NamedTask[];
  readonly seeds: readonly NamedTask[];
  /** Notices about the user's own tasks that are not used. */
  readonly leftOut: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
}

async function tasksOf(
  { dataset, tasks, seeds: seedSet, settings }: SelfPlayArguments,
  context: Partial<Pick<LoadContext, 'env' | 'signal'>>,
): Promise<Tasks> {
  const { kinds } = settings;
  const [held, begun] = await Promise.all([
    loadTasks({ ...context, kinds, dataset: tasks ?? dataset }),
    loadTasks({ ...context, kinds, dataset: seedSet, split: 'train' }),
  ]);
  const isAsked = ({ record }: NamedTask) => kinds.includes(record.kind);
  const left = held.tasks.filter((task) => !isAsked(task));
  const [heldOut, seeds] = [held.tasks.filter(isAsked), begun.tasks.filter(isAsked)];
  if (heldOut.length === 0) throw new ConfigError(`${tasks ?? dataset} has no task of the kinds ${kinds.join(', ')}. Name others with kinds.`);
  return {
    heldOut: tasks === null ? interleaved(heldOut) : heldOut,
    seeds,
    leftOut: tasks === null ? [] : leftOutTexts(tasks, left),
    provenance: { tasks: held.source, seeds: begun.source },
  };
}

function leftOutTexts(tasks: string, left: readonly NamedTask[]): string[] {
  if (left.length === 0) return [];
  const kinds = [...new Set(left.map(({ record }) => record.kind))].join(', ');
  return [`${left.length} of the tasks in ${tasks} ${left.length === 1 ? 'is' : 'are'} of a kind that is not asked (${kinds}). Add it to kinds.`];
}

/** One task of each kind in turn, so that the first rows of an evaluation are of all kinds. */
function interleaved(tasks: readonly NamedTask[]): NamedTask[] {
  const byKind = [...Map.groupBy(tasks, ({ record }) => record.kind).values()];
  const longest = Math.max(0, ...byKind.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) => byKind.flatMap((own) => own[i] ?? [])).flat();
}

async function givenPrograms(dataset: string): Promise<GivenProgram[]> {
  return (await loadTasks({ dataset })).tasks.map(({ record, step }) => ({ record, step }));
}
