/** The kinds of option whose value is a table: JSON objects, arguments of an environment, numbers by name, HTTP headers, models by role. None of their errors shows a secret. */
import { ConfigError } from '../../core/errors.ts';
import { jsonOrText, readJson, refuseRounded } from '../../core/read-json.ts';
import { repeatedKey } from '../../core/repeated-key.ts';
import { isObject } from '../../schemas/is-object.ts';
import { isDeeperThan, MOST_LEVELS, namesPrototype } from '../../schemas/nesting.ts';
import { mergeRoleTables } from '../../schemas/merge-role-tables.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';
import { checkHeaders, parseHeader } from '../../sessions/policy/headers.ts';
import { isSecretName } from '../../transport/redact.ts';
import { parseRoleFlag } from '../../sessions/roles/role-flag.ts';
import { type Always, option, type Settings } from './kinds.ts';
import { type Option, wrongValue } from './option.ts';

type Table = Readonly<Record<string, unknown>>;

/** A table: a JSON object, or `key=value`, whose value is JSON or else text. A further occurrence adds its keys and replaces existing ones. `example`: an object, for errors. */
export function object<const S extends Settings<Table> & { readonly example: string }>(description: string, settings: S): Option<Table, Always<S>> {
  const wanted = `a JSON object such as '${settings.example}', or key=value`;
  const parse = (word: string | null, spelling: string, before: Table | undefined) => ({ ...before, ...parseTable(word!, spelling, wanted) });
  const check = (value: unknown, spelling: string): Table => {
    if (isObject(value)) return levelled(value, spelling);
    throw wrongValue(spelling, 'a table', value);
  };
  return option<Table, S>(
    { placeholder: 'JSON|K=V', isRepeatable: true, parse, check, fallbackText: (value) => JSON.stringify(value) },
    description,
    settings,
  );
}

/** A JSON object, or one key with its value. Throws ConfigError. */
function parseTable(word: string, spelling: string, wanted: string): Table {
  const [, key, value] = /^\s*([\w-]+)=(.*)$/s.exec(word) ?? [];
  if (key !== undefined) return levelled({ [key]: jsonOrText(value!) }, spelling);
  return parseObject(word, spelling, wanted);
}

/** Throws ConfigError. Its message leaves out values that may hold a secret. */
function parseObject(word: string, spelling: string, wanted: string): Table {
  const mayHoldSecret = (word.match(/[\w-]+/g) ?? []).some(isSecretName);
  const shown = mayHoldSecret ? 'a value that is not shown because it may hold a secret' : word.length > 60 ? `${word.slice(0, 60)}…` : word;
  let value: unknown;
  try {
    // Depth first: visiting every value of a deep text would overflow the stack.
    levelled(readJson(word), spelling);
    value = readJson(word, refuseRounded);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    if (cause instanceof RangeError) throw new ConfigError(`${spelling}: ${cause.message}`, { cause });
    const position = / at position (\d+)/.exec(String(cause))?.[1];
    const where = `, which is not valid JSON${position === undefined ? '' : ` from character ${position} on`}`;
    throw new ConfigError(`${spelling} must be ${wanted}, got ${shown}${where}`, { cause });
  }
  if (!isObject(value)) throw wrongValue(spelling, wanted, value, { shown });
  const twice = repeatedKey(word);
  if (twice !== null) throw new ConfigError(`${spelling} has the key ${twice} twice. Keep the one that counts.`);
  return levelled(value, spelling);
}

function levelled<T>(value: T, spelling: string): T {
  if (isDeeperThan(value, MOST_LEVELS)) throw new ConfigError(`${spelling} may be nested at most ${MOST_LEVELS} levels deep`);
  if (namesPrototype(value)) throw new ConfigError(`${spelling} has the key __proto__, which nothing can be named. Leave it out`);
  return value;
}

type Numbers = Readonly<Record<string, number>>;

/** `name=number`, each time that the option is given. */
export function numbers<const S extends Settings<Numbers> & { readonly example: string }>(
  description: string,
  settings: S,
): Option<Numbers, Always<S>> {
  const parse = (word: string | null, spelling: string, before: Numbers | undefined) => {
    const split = word!.lastIndexOf('=');
    const [name, value] = [word!.slice(0, Math.max(0, split)).trim(), word!.slice(split + 1).trim()];
    const count = value === '' ? NaN : Number(value);
    if (name !== '' && Number.isFinite(count)) return { ...before, [name]: count };
    throw wrongValue(spelling, `name=number, such as ${settings.example}`, word);
  };
  const check = (value: unknown, spelling: string): Numbers => {
    if (isObject(value) && Object.values(value).every(Number.isFinite)) return value as Numbers;
    throw wrongValue(spelling, 'a table of numbers', value);
  };
  return option<Numbers, S>({ placeholder: 'NAME=NUMBER', isRepeatable: true, parse, check }, description, settings);
}

type Headers = Readonly<Record<string, string>>;

/** HTTP headers, one `Name: value` each time that the option is given; in a file, a table or a list. */
export function headers(description: string): Option<Headers, false> {
  const parse = (word: string | null, spelling: string, before: Headers | undefined) => ({ ...before, ...parseHeader(word!, spelling) });
  return option<Headers, Settings<Headers>>({ placeholder: '"N: V"', isRepeatable: true, parse, check: checkHeaders }, description, {});
}

/**
 * `role=model`, each time that the option is given; in a file, `[roles.judge]` tables. Code that reads a file checks their keys with `checkRoleTables`: loading their schema would
 * slow down the start of every command.
 */
export function roles(description: string): Option<RoleTables, false> {
  const parse = (word: string | null, spelling: string, before: RoleTables | undefined) =>
    mergeRoleTables(before ?? {}, parseRoleFlag(word!, spelling), { areOneLayer: true });
  const check = (value: unknown, spelling: string): RoleTables => {
    if (isObject(value)) return value as RoleTables;
    throw new ConfigError(`${spelling} must be a table of roles`);
  };
  return option<RoleTables, Settings<RoleTables>>({ placeholder: 'NAME=MODEL', isRepeatable: true, parse, check }, description, {});
}
