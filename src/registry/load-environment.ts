/** Loads an environment from its id or path: finds it, imports it, calls it with its arguments and checks the result. */
import { withTransport } from '../transport/transport-settings.ts';
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import type { Environment } from '../core/environment.ts';
import { CancelledError, ConfigError, thrownText, VfError } from '../core/errors.ts';
import type { ImageStore } from '../core/message.ts';
import { builtinModels, type Models, type RoleDeclarations } from '../core/model.ts';
import { RunImages } from '../files/run-images.ts';
import { playSettingsProblem } from '../core/play-settings.ts';
import { LazyModels } from '../models/lazy-models.ts';
import { checkRoleDeclarations } from '../models/role-declarations.ts';
import type { EnvironmentDefaults } from '../schemas/environment-description.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { findEnvironment, type FindEnvironmentOptions, type FoundEnvironment } from './find-environment.ts';
import { importEnvironment } from './import-environment.ts';

export interface LoadEnvironmentOptions extends FindEnvironmentOptions {
  /** Environment variables for the environment (`HF_TOKEN`, `SERPER_API_KEY`, ...). @default those of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** `training`: the environment's `train` has the rows to train on, its `eval` held-out rows. `evaluation`: only `eval` is loaded, and reading `train` throws. @default 'evaluation' */
  readonly purpose?: LoadPurpose;
  /** Models for calls outside rollouts; the caller binds them once the run is set up. @default the environment's own ones, once it is loaded */
  readonly models?: LazyModels;
  /** The store for the images that the environment shows: the run's. @default a store in memory */
  readonly images?: ImageStore;
  /** Takes lines about slow steps, such as the making of vectors. @default says nothing */
  readonly note?: (line: string) => void;
}

const OPTIONS: OptionKinds<LoadEnvironmentOptions> = {
  environmentsDir: 'text',
  workingDirectory: 'text',
  env: 'table',
  signal: 'signal',
  purpose: 'any',
  models: 'any',
  images: 'any',
  note: 'function',
};

/** The use of the rows, so that an environment loads only the rows that will be played. */
type LoadPurpose = 'evaluation' | 'training';
const PURPOSES: readonly LoadPurpose[] = ['evaluation', 'training'];

/** The second argument of an environment's own `loadEnvironment(args, context)`. */
export interface LoadContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly purpose: LoadPurpose;
  /** Models of the roles that the environment's module exports as `roles`. They answer once the run is set up, not while the environment loads. */
  readonly models: Models;
  /** For the images that the environment shows: the run's own store, whose bytes its records, clients and trainer read. Pass it on as the environment's `images`. */
  readonly images: ImageStore;
  /** Tells the user about slow steps while the environment loads. */
  readonly note: (line: string) => void;
}

type Loader = (args: Readonly<Record<string, unknown>>, context: LoadContext) => unknown;

/**
 * Loads an environment. `id`: its id, or a path to its folder or module. `args`: passed to it unchanged. Throws ConfigError if it is unknown, cannot
 * be imported, rejects its arguments, or returns something that is not an environment; CancelledError when the signal aborts.
 * @example const environment = await loadEnvironment('search-r1', { data_limit: 20, max_turns: 4 });
 * @example const { train, eval: heldOut } = await loadEnvironment('search-r1', {}, { purpose: 'training' });
 */
export async function loadEnvironment(
  id: string,
  args: Readonly<Record<string, unknown>> = {},
  options: LoadEnvironmentOptions = {},
): Promise<Environment> {
  if (typeof id !== 'string') throw new ConfigError(`loadEnvironment needs the name or path of an environment, got ${JSON.stringify(id)}`);
  checkOptions('loadEnvironment', options, OPTIONS);
  if (options.purpose !== undefined && !PURPOSES.includes(options.purpose))
    throw new ConfigError(`The purpose of loadEnvironment must be ${PURPOSES.join(' or ')}, got ${JSON.stringify(options.purpose)}`);
  if (!isObject(args)) throw new ConfigError(`The arguments of ${id} must be an object, got ${JSON.stringify(args)}`);
  const {
    env = process.env,
    signal = new AbortController().signal,
    purpose = 'evaluation',
    models = new LazyModels(),
    images = new RunImages(),
    note = () => {},
  } = options;
  if (signal.aborted) throw new CancelledError(`Stopped loading ${id}`, { cause: signal.reason });
  const found = findEnvironment(id, options);
  const module = await attempt(found, 'could not be imported', () => importEnvironment(found.entry, { isOwn: found.isBundled }));
  const load = loaderOf(found, module);
  const declared = checkRoleDeclarations(module['roles'] ?? nestedExports(module)['roles'], found.entry);
  models.declare(declared);
  const context = { env, signal, purpose, models: models.models, images, note };
  // What it opens, such as a retriever, goes through the proxies of these variables.
  const environment = await attempt(found, 'failed to load', () => withTransport({ variables: env }, () => load(args, context)));
  const problem = environmentProblem(environment);
  if (problem !== null) throw new ConfigError(`${found.entry} does not load an environment (SingleTurnEnv, MultiTurnEnv, ...): ${problem}`);
  if (signal.aborted) {
    await (environment as Environment).close();
    throw new CancelledError(`Stopped loading ${id}`, { cause: signal.reason });
  }
  const loaded = await withRoles(environment as Environment, declared, found);
  if (options.models === undefined) models.bind(builtinModels(loaded.roles));
  return loaded;
}

/** Adds the roles of the module to the environment's own, which take precedence. */
async function withRoles(environment: Environment, declared: RoleDeclarations, found: FoundEnvironment): Promise<Environment> {
  try {
    const roles = { ...declared, ...checkRoleDeclarations(environment.roles, found.entry) };
    if (Object.keys(declared).length > 0) Object.defineProperty(environment, 'roles', { value: roles, enumerable: true, configurable: true });
    return environment;
  } catch (cause) {
    await environment.close();
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(
      `The environment of ${found.entry} is frozen, so the roles that its module exports cannot be added. Pass the roles to the environment itself.`,
      {
        cause,
      },
    );
  }
}

/** The number of rows and rollouts per row that an evaluation plays by default, from the environment's package.json. */
export function environmentDefaults(id: string, options: FindEnvironmentOptions = {}): EnvironmentDefaults {
  return findEnvironment(id, options).description.eval ?? {};
}

/** Wraps errors of the environment's code in ConfigError; the package's own pass unchanged. */
async function attempt<T>(found: FoundEnvironment, failure: string, call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : thrownText(cause);
    throw new ConfigError(`The environment ${found.id} (${found.entry}) ${failure}: ${text}`, { cause });
  }
}

function loaderOf({ entry }: FoundEnvironment, module: Readonly<Record<string, unknown>>): Loader {
  const fallback = module['default'];
  const nested = nestedExports(module);
  const exported = [module['loadEnvironment'], module['load_environment'], nested['loadEnvironment'], nested['load_environment'], fallback];
  const load = exported.find((value) => value !== undefined);
  if (typeof load === 'function') return load as Loader;
  const name = ['loadEnvironment', 'load_environment'].find((key) => load !== undefined && (module[key] ?? nested[key]) === load);
  if (name !== undefined) throw new ConfigError(`${entry} exports ${name}, but it is ${kindOf(load)}, not a function`);
  const names = Object.keys(module).join(', ') || 'nothing';
  throw new ConfigError(`${entry} does not export a function loadEnvironment(args), load_environment or a default; it exports ${names}`);
}

/** The exports of a CommonJS module, which are the members of its default export. */
function nestedExports({ default: exported }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return fieldsOf(exported);
}

/** Throws ConfigError unless the value is a loaded environment; `name` is the function that needs one. */
export function assertEnvironment(name: string, value: unknown): void {
  const problem = isObject(value) ? environmentProblem(value) : `it is ${JSON.stringify(value)}`;
  if (problem !== null) throw new ConfigError(`${name} needs an environment that loadEnvironment gave: this one cannot be used, because ${problem}`);
}

/** The rows for evaluation in place of missing rows for training, which are an error of their reader. */
function trainOf(environment: Partial<Record<keyof Environment, unknown>>): unknown {
  try {
    return environment.train;
  } catch (error) {
    if (error instanceof ConfigError) return environment.eval;
    throw error;
  }
}

/** Checked by shape: an environment need not extend this package's classes. */
function environmentProblem(value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return `it gave ${value === null ? 'null' : typeof value}`;
  const environment = value as Partial<Record<keyof Environment, unknown>>;
  if (typeof environment.id !== 'string' || environment.id === '') return 'its id is not a non-empty string';
  for (const method of ['start', 'close'] as const) if (typeof environment[method] !== 'function') return `it has no method ${method}`;
  for (const name of ['train', 'eval'] as const) {
    const dataset = (name === 'eval' ? environment.eval : trainOf(environment)) as { length?: unknown; at?: unknown } | undefined;
    if (typeof dataset?.length !== 'number' || typeof dataset.at !== 'function') return `its ${name} is not a Dataset`;
  }
  const rubric = environment.rubric as { score?: unknown; scoreGroup?: unknown; names?: unknown } | undefined;
  if (typeof rubric?.score !== 'function' || typeof rubric.scoreGroup !== 'function') return 'its rubric is not a Rubric';
  if (!Array.isArray(rubric.names)) return 'its rubric has no list of names; extend Rubric';
  if (typeof environment.limits !== 'object' || environment.limits === null) return 'it has no limits';
  if (environment.turnFormat !== 'chat' && environment.turnFormat !== 'continuation') return 'its turnFormat is neither "chat" nor "continuation"';
  return playSettingsProblem({ limits: environment.limits });
}
