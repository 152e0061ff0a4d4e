/** Parses and checks option values from the command line (strings) or a TOML file (typed), against the table of flags. */
import { ConfigError } from '../../core/errors.ts';
import { readJson } from '../../core/read-json.ts';
import { isDeeperThan, MOST_LEVELS } from '../../schemas/nesting.ts';
import { isSecretName } from '../../transport/redact.ts';
import { mergeRoleTables, type RoleTables } from '../../schemas/roles-config.ts';
import { checkHeaders, parseHeader } from '../../sessions/policy/headers.ts';
import { checkRoleTables, parseRoleFlag } from '../roles/role-flag.ts';
import type { Flag, FlagKind, FLAGS } from './flags.ts';
import { isObject } from '../../schemas/is-object.ts';

interface KindValues {
  readonly roles: RoleTables;
  readonly text: string;
  readonly integer: number;
  readonly number: number;
  readonly object: Readonly<Record<string, unknown>>;
  readonly names: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly switch: boolean;
  /** True: the newest matching run. */
  readonly resume: string | boolean;
}

/** Options by long name; absent if not given. */
export type Settings = { readonly [F in (typeof FLAGS)[number] as F['name']]?: KindValues[F['kind']] };

/** One value from the command line. `before` is the earlier value of a repeated flag: headers and roles are merged, other values replaced. */
export function readSetting(flag: Flag, text: string | undefined, spelling: string, before: unknown): unknown {
  if (text === undefined) return true;
  if (flag.kind === 'roles') return mergeRoleTables((before ?? {}) as RoleTables, parseRoleFlag(text, spelling));
  if (flag.kind === 'headers') return { ...(before as object | undefined), ...parseHeader(text, spelling) };
  return checkSetting(flag, typedValue(flag, text, spelling), spelling);
}

function typedValue(flag: Flag, text: string, spelling: string): unknown {
  if (flag.kind === 'object') return parseObject(text, spelling);
  const isNumber = flag.kind === 'integer' || flag.kind === 'number';
  return isNumber && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : text;
}

/** One value from a TOML file. */
export function checkSetting(flag: Flag, value: unknown, spelling: string): unknown {
  return CHECKS[flag.kind](value, spelling, flag);
}

const CHECKS: Readonly<Record<FlagKind, (value: unknown, spelling: string, flag: Flag) => unknown>> = {
  roles: (value, spelling) => checkRoleTables(value, spelling),
  text: (value, spelling) => expected(typeof value === 'string' && value !== '', 'a non-empty string', value, spelling),
  integer: (value, spelling, flag) => checkNumber(flag, value, spelling),
  number: (value, spelling, flag) => checkNumber(flag, value, spelling),
  object: (value, spelling) => expected(isObject(value), 'a table', value, spelling),
  switch: (value, spelling) => expected(typeof value === 'boolean', 'true or false', value, spelling),
  resume: (value, spelling) => expected(typeof value === 'boolean' || typeof value === 'string', 'true, false or a directory', value, spelling),
  names: (value, spelling) => (typeof value === 'string' ? splitNames(value) : expected(isTextList(value), 'a list of strings', value, spelling)),
  headers: (value, spelling) => checkHeaders(value, spelling),
};

function expected(isRight: boolean, what: string, value: unknown, spelling: string): unknown {
  if (isRight) return value;
  throw new ConfigError(`${spelling} must be ${what}, got ${JSON.stringify(value)}`);
}

function checkNumber(flag: Flag, value: unknown, spelling: string): number {
  const { minimum = -Infinity, maximum = Infinity, kind } = flag;
  const whole = kind === 'integer';
  if (typeof value === 'number' && (whole ? Number.isSafeInteger(value) : Number.isFinite(value)) && value >= minimum && value <= maximum) {
    if (flag.name !== 'num-examples' || value !== 0) return value;
  }
  const what = whole ? 'an integer' : 'a number';
  const range =
    flag.name === 'num-examples'
      ? ' of at least 1, or -1 for all'
      : maximum < Infinity
        ? ` from ${minimum} to ${maximum}`
        : ` of at least ${minimum}`;
  throw new ConfigError(`${spelling} must be ${what}${range}, got ${typeof value === 'number' ? value : JSON.stringify(value)}`);
}

/** A JSON object from the command line. Throws ConfigError, which shows no secret. */
function parseObject(text: string, spelling: string): Readonly<Record<string, unknown>> {
  const mayHoldSecret = (text.match(/[\w-]+/g) ?? []).some(isSecretName);
  const shown = mayHoldSecret ? 'a value that is not shown because it may hold a secret' : shorten(text);
  const wrong = (where: string, cause?: unknown) =>
    new ConfigError(`${spelling} must be a JSON object such as '{"topk": 5}', got ${shown}${where}`, cause === undefined ? {} : { cause });
  let value: unknown;
  try {
    value = readJson(text);
  } catch (cause) {
    const position = / at position (\d+)/.exec(String(cause))?.[1];
    throw wrong(position === undefined ? ', which is not valid JSON' : `, which is not valid JSON from character ${position} on`, cause);
  }
  if (!isObject(value)) throw wrong('');
  if (isDeeperThan(value, MOST_LEVELS)) throw new ConfigError(`${spelling} may be nested at most ${MOST_LEVELS} levels deep`);
  return value;
}

function splitNames(text: string): string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((v) => typeof v === 'string');
}
