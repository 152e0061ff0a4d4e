/** Reads the keys of an agent's request, so that none is dropped silently: a key is read, known to change nothing, or refused by its name. */
import { closestName } from '../../core/closest-name.ts';
import { SAMPLED_FIELDS, type SampledField } from '../../core/sampling.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { AgentSettings } from '../agent-request.ts';
import { AgentRefusal } from '../agent-refusal.ts';

export function refuse(param: string, problem: string): never {
  throw new AgentRefusal(400, param, `${param} ${problem}`);
}

/** What a key must be, worded to follow "must be". */
interface Wanted<T> {
  readonly wanted: string;
  readonly is: (value: unknown) => value is T;
}

const isString = (value: unknown): value is string => typeof value === 'string';
const isFlag = (value: unknown): value is boolean => typeof value === 'boolean';
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);

export const STRING: Wanted<string> = { wanted: 'a string', is: isString };
export const FLAG: Wanted<boolean> = { wanted: 'true or false', is: isFlag };
export const LIST: Wanted<readonly unknown[]> = { wanted: 'a list', is: isList };
export const OBJECT: Wanted<Readonly<Record<string, unknown>>> = { wanted: 'an object', is: isObject };

/** A field of sampling, such as `top_p`, whatever the request calls it. */
export function sampled(field: SampledField): Wanted<number> {
  const { expected, accepts } = SAMPLED_FIELDS[field];
  return { wanted: expected, is: (value): value is number => accepts(value) };
}

export function integerFrom(least: number, most = Number.MAX_SAFE_INTEGER): Wanted<number> {
  const wanted = most === Number.MAX_SAFE_INTEGER ? `an integer of at least ${least}` : `an integer from ${least} to ${most}`;
  return { wanted, is: (value): value is number => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most };
}

export class RequestKeys {
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #place: string;
  readonly #read = new Set<string>();

  /** @param place of the object in the body, with a dot at its end; empty for the body itself */
  constructor(value: unknown, place = '') {
    if (!isObject(value))
      throw new AgentRefusal(
        400,
        place === '' ? null : place.slice(0, -1),
        `${place === '' ? 'The body' : place.slice(0, -1)} must be a JSON object.`,
      );
    this.#fields = value;
    this.#place = place;
  }

  /** The value; undefined if it is absent or null. */
  optional<T>(name: string, { wanted, is }: Wanted<T>): T | undefined {
    const value = this.raw(name);
    if (value === undefined || value === null) return undefined;
    if (!is(value)) refuse(this.#place + name, `must be ${wanted}.`);
    return value;
  }

  required<T>(name: string, wanted: Wanted<T>): T {
    return this.optional(name, wanted) ?? refuse(this.#place + name, `must be ${wanted.wanted}; it is missing.`);
  }

  /** Fields of sampling that are passed on, by the names that the request has for them. Undefined for none. */
  passedOn(names: { readonly [K in SampledField]?: string }): Readonly<Record<string, unknown>> | undefined {
    const given = Object.entries(names).flatMap(([field, name]) => {
      const value = this.optional(name, sampled(field as SampledField));
      return value === undefined ? [] : [[field, value]];
    });
    return given.length === 0 ? undefined : (Object.fromEntries(given) as Readonly<Record<string, unknown>>);
  }

  raw(name: string): unknown {
    this.#read.add(name);
    return this.#fields[name];
  }

  /**
   * Refuses a key that nobody has read, unless it is null or an empty list. An empty object may ask for something: `web_search_options: {}`.
   * @param ignored keys that change nothing here
   * @returns those of `named` that the request has: they may change an answer elsewhere
   */
  end({ ignored = [], named = [] }: { readonly ignored?: readonly string[]; readonly named?: readonly string[] } = {}): readonly string[] {
    const left = Object.keys(this.#fields).filter((name) => !this.#read.has(name) && !isEmpty(this.#fields[name] ?? []));
    const unknown = left.find((name) => !ignored.includes(name) && !named.includes(name));
    if (unknown !== undefined) {
      const close = closestName(unknown, [...this.#read]);
      refuse(this.#place + unknown, `cannot be honoured here. ${close === null ? 'Leave it out.' : `Did you mean ${close}?`}`);
    }
    const asksNothing = (name: string) => isObject(this.#fields[name]) && isEmpty(Object.keys(this.#fields[name]));
    return left.filter((name) => named.includes(name) && !asksNothing(name)).map((name) => this.#place + name);
  }
}

function isEmpty(value: unknown): boolean {
  return isList(value) && value.length === 0;
}

/** Reads each object once: the messages of a request are the objects of the one before, where it goes on with it. Nobody may change what was read. */
export function readOnce<T>(read: (given: unknown, place: string) => T): (given: unknown, place: string) => T {
  const known = new WeakMap<object, T>();
  return (given, place) => {
    if (!isObject(given)) return read(given, place);
    let value = known.get(given);
    if (value === undefined) known.set(given, (value = read(given, place)));
    return value;
  };
}

/** A string or a list of them, none empty; undefined for no string at all. */
export function stringsOf(value: unknown, place: string): readonly string[] | undefined {
  const list: unknown = typeof value === 'string' ? [value] : (value ?? []);
  if (!isList(list) || !list.every((one) => isString(one) && one !== '')) return refuse(place, 'must be a string or a list of strings, none empty.');
  return list.length === 0 ? undefined : (list as readonly string[]);
}

/** Without the keys that have no value. */
export function defined(settings: { readonly [K in keyof AgentSettings]?: AgentSettings[K] | undefined }): AgentSettings {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
