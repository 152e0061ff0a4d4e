/** From an id or a path to an environment that can be played: found, imported, called with its arguments, and checked. */
import type { Environment } from '../core/environment.ts';
import { CancelledError, ConfigError, thrownText, VfError } from '../core/errors.ts';
import type { Models, RoleDeclarations } from '../core/model.ts';
import { LazyModels } from '../models/lazy-models.ts';
import { checkRoleDeclarations } from '../models/role-declarations.ts';
import type { EnvironmentDefaults } from '../schemas/environment-description.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { findEnvironment, type FindEnvironmentOptions, type FoundEnvironment } from './find-environment.ts';
import { importEnvironment } from './import-environment.ts';

export interface LoadEnvironmentOptions extends FindEnvironmentOptions {
  /** Environment variables that the environment may look up (`HF_TOKEN`, `SERPER_API_KEY`, ...). @default those of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
  /** `training`: the environment's `train` holds the rows to train on, its `eval` held-out ones. @default evaluation */
  readonly purpose?: LoadPurpose;
  /** What the environment asks outside its rollouts; the caller binds it once the run is set up. @default models that nobody binds */
  readonly models?: LazyModels;
}

/** What the rows are wanted for: an environment need not load what nobody plays. */
type LoadPurpose = 'evaluation' | 'training';

/** What an environment's own `loadEnvironment(args, context)` gets as its second argument. */
export interface LoadContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly purpose: LoadPurpose;
  /** By role, for the roles that the environment's module exports as `roles`. They answer once the run is set up, not while the environment loads. */
  readonly models: Models;
}

type Loader = (args: Readonly<Record<string, unknown>>, context: LoadContext) => unknown;

/**
 * `id` is an environment's id or a path to its folder or module; `args` go to it as they are. Throws ConfigError when it is unknown, does not
 * load, refuses its arguments, or gives something that is no environment.
 */
export async function loadEnvironment(
  id: string,
  args: Readonly<Record<string, unknown>> = {},
  options: LoadEnvironmentOptions = {},
): Promise<Environment> {
  if (!isObject(args)) throw new ConfigError(`The arguments of ${id} must be an object, got ${JSON.stringify(args)}`);
  const { env = process.env, signal = new AbortController().signal, purpose = 'evaluation', models = new LazyModels() } = options;
  if (signal.aborted) throw new CancelledError(`Stopped loading ${id}`, { cause: signal.reason });
  const found = findEnvironment(id, options);
  const module = await attempt(found, 'be imported', () => importEnvironment(found.entry, { isOwn: found.isBundled }));
  const load = loaderOf(found, module);
  const declared = checkRoleDeclarations(module['roles'] ?? nestedExports(module)['roles'], found.entry);
  models.declare(declared);
  const environment = await attempt(found, 'load', () => load(args, { env, signal, purpose, models: models.models }));
  const problem = environmentProblem(environment);
  if (problem !== null) throw new ConfigError(`${found.entry} does not load an environment (SingleTurnEnv, MultiTurnEnv, ...): ${problem}`);
  if (signal.aborted) {
    await (environment as Environment).close();
    throw new CancelledError(`Stopped loading ${id}`, { cause: signal.reason });
  }
  return withRoles(environment as Environment, declared, found);
}

/** The environment with the roles of its module among its own; its own win. */
async function withRoles(environment: Environment, declared: RoleDeclarations, found: FoundEnvironment): Promise<Environment> {
  try {
    const roles = { ...declared, ...checkRoleDeclarations(environment.roles, found.entry) };
    if (Object.keys(declared).length > 0) Object.defineProperty(environment, 'roles', { value: roles, enumerable: true, configurable: true });
    return environment;
  } catch (cause) {
    await environment.close();
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(
      `The environment of ${found.entry} is frozen, so that the roles of its module cannot be set on it. Give it the roles itself.`,
      {
        cause,
      },
    );
  }
}

/** How many rows and rollouts an evaluation plays when the user does not say, as the environment's package.json has it. */
export function environmentDefaults(id: string, options: FindEnvironmentOptions = {}): EnvironmentDefaults {
  return findEnvironment(id, options).description.eval ?? {};
}

/** Our own errors are shown as they are; anything else is an error of the environment's code. */
async function attempt<T>(found: FoundEnvironment, effort: string, call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : thrownText(cause);
    throw new ConfigError(`The environment ${found.id} (${found.entry}) failed to ${effort}: ${text}`, { cause });
  }
}

function loaderOf({ entry }: FoundEnvironment, module: Readonly<Record<string, unknown>>): Loader {
  const fallback = module['default'];
  const nested = nestedExports(module);
  const exported = [module['loadEnvironment'], module['load_environment'], nested['loadEnvironment'], nested['load_environment'], fallback];
  const load = exported.find((value) => value !== undefined);
  if (typeof load === 'function') return load as Loader;
  const names = Object.keys(module).join(', ') || 'nothing';
  throw new ConfigError(`${entry} does not export a function loadEnvironment(args) (or load_environment, or a default); it exports ${names}`);
}

/** Of a CommonJS module, whose exports are the members of its default. */
function nestedExports({ default: exported }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return fieldsOf(exported);
}

/** Checked by shape: an environment need not extend our classes. */
function environmentProblem(value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return `it gave ${value === null ? 'null' : typeof value}`;
  const environment = value as Partial<Record<keyof Environment, unknown>>;
  if (typeof environment.id !== 'string' || environment.id === '') return 'its id is not a text';
  for (const method of ['start', 'close'] as const) if (typeof environment[method] !== 'function') return `it has no method ${method}`;
  for (const name of ['train', 'eval'] as const) {
    const dataset = environment[name] as { length?: unknown; at?: unknown } | undefined;
    if (typeof dataset?.length !== 'number' || typeof dataset.at !== 'function') return `its ${name} is not a Dataset`;
  }
  const rubric = environment.rubric as { score?: unknown; scoreGroup?: unknown } | undefined;
  if (typeof rubric?.score !== 'function' || typeof rubric.scoreGroup !== 'function') return 'its rubric is not a Rubric';
  if (typeof environment.limits !== 'object' || environment.limits === null) return 'it has no limits';
  if (environment.turnFormat !== 'chat' && environment.turnFormat !== 'continuation') return 'its turnFormat is neither "chat" nor "continuation"';
  return null;
}
