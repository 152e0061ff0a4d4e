/** A run may come from someone else, so names in it neither load code nor get the user's keys, unless the user names them too. */
import { existsSync, statSync } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import { isInside } from '../../files/is-inside.ts';
import { realPath } from '../../files/real-path.ts';
import type { EnvironmentFacts } from '../../registry/environment-facts.ts';
import { findEnvironment, isEnvironmentPath } from '../../registry/find-environment.ts';
import { textsIn } from '../../schemas/is-object.ts';
import { isSecretName } from '../../transport/redact.ts';
import type { Surroundings } from '../surroundings.ts';

export interface NamedEnvironment {
  /** The folder of the run, or of the training run. */
  readonly folder: string;
  /** From `--env`; null if the user left it out. */
  readonly given: string | null;
  readonly environmentsDir: string;
}

/**
 * The environment to load: the user's choice, else the run's. A run may name an environment by its id, or by a path into the user's own folder of environments. Throws
 * ConfigError for any other path, for one inside the run's own folder, and for an unknown id.
 */
export function trustedEnvironment(recorded: string, { folder, given, environmentsDir }: NamedEnvironment): string {
  if (given !== null) return given;
  const { entry, isBundled } = found(recorded, { folder, environmentsDir });
  if (isBundled) return recorded;
  const isOwn = !isEnvironmentPath(recorded) || isInside(realPath(environmentsDir), realPath(entry));
  if (isOwn && !isInside(realPath(folder), realPath(entry))) return recorded;
  throw new ConfigError(
    `${folder} was played with the environment ${entry}, which vf-score does not load by itself, because a run may come from somebody else. If you trust that code, name it: --env ${recorded}`,
  );
}

function found(recorded: string, { folder, environmentsDir }: Pick<NamedEnvironment, 'folder' | 'environmentsDir'>) {
  try {
    return findEnvironment(recorded, { environmentsDir });
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    throw new ConfigError(
      `The environment of ${folder} was not found: ${cause.message.replace(/\.$/, '')}. If you played it from a path, name that path: --env PATH`,
      { cause },
    );
  }
}

export interface NamedArguments {
  /** The folder of the run, or of the training run. */
  readonly folder: string;
  /** Facts that the environment of the arguments declares. */
  readonly facts: EnvironmentFacts;
  readonly recorded: Readonly<Record<string, unknown>>;
  /** From `-a`. */
  readonly given: Readonly<Record<string, unknown>>;
}

/**
 * Throws ConfigError if only the run names a file among the arguments of the environment, whose defaults may lie in the run too. Any file may hold code, whatever
 * its name ends with.
 */
export function assertNamesNoFile({ folder, facts: { fileArguments = {} }, recorded, given }: NamedArguments): void {
  const absent = Object.entries(fileArguments).find(([name, path]) => path !== null && !(name in given || name in recorded));
  if (absent !== undefined && isInside(realPath(folder), realPath('.')))
    throw new ConfigError(
      `vf-score was started inside ${folder}, so the file ${absent[1]} would come from there. Start it in another folder, or name the file: -a '{"${absent[0]}": "PATH"}'`,
    );
  const files = Object.entries(recorded).flatMap(([name, value]) => {
    const texts = textsIn(value);
    const file = Object.hasOwn(fileArguments, name) ? texts[0] : texts.find(namesFile);
    return name in given || file === undefined ? [] : [{ name, value, file }];
  });
  if (files.length === 0) return;
  const listed = files.map(({ name, file }) => `${file} (argument ${name})`).join(', ');
  const [noun, those] = files.length === 1 ? ['file', 'that file, name it'] : ['files', 'them, name them'];
  const named = Object.fromEntries(files.map(({ name, value }) => [name, value]));
  throw new ConfigError(
    `${folder} was played with the ${noun} ${listed}, which vf-score does not load by itself, because a run may come from somebody else. If you trust ${those}: -a '${JSON.stringify(named)}'`,
  );
}

function namesFile(text: string): boolean {
  return text.startsWith('file:') || (existsSync(text) && !statSync(text).isDirectory());
}

/** The keys that the environment does not get, and the argument that is the reason. */
export interface WithheldKeys {
  readonly argument: string;
  readonly keys: readonly string[];
}

/** The variables without those that hold a key, a token or a password by their name, if only the run names a server, which may belong to anyone. */
export function variablesFor(
  recorded: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
  variables: Surroundings['variables'],
): { readonly variables: Surroundings['variables']; readonly withheld: WithheldKeys | null } {
  const argument = Object.keys(recorded).find((name) => !(name in given) && namesServer(name, recorded[name]));
  const keys = Object.keys(variables).filter((name) => isSecretName(name) && variables[name] !== '');
  if (argument === undefined || keys.length === 0) return { variables, withheld: null };
  return { variables: Object.fromEntries(Object.entries(variables).filter(([name]) => !keys.includes(name))), withheld: { argument, keys } };
}

export function withheldText({ argument, keys }: WithheldKeys): string {
  return `The environment gets no key (${keys.join(', ')}), because only the run names its server (${argument}). If the server needs a key and you trust it, name it with -a.`;
}

/** A URL may be written without its scheme. */
function namesServer(name: string, value: unknown): boolean {
  return textsIn(value).some((text) => /url$/i.test(name) || text.includes('://'));
}
