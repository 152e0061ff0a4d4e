import { isObject } from './is-object.ts';
/** A configuration schema as a list of keys: the source of files, flags, help, documentation and error messages. */

/** The schema of one key, limited to the parts used here. */
export interface KeySchema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly (string | number)[];
  readonly anyOf?: readonly KeySchema[];
  readonly items?: KeySchema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly minLength?: number;
  readonly minItems?: number;
  readonly pattern?: string;
  /** The texts that `pattern` allows, in words. */
  readonly title?: string;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, KeySchema>>;
  readonly additionalProperties?: boolean | KeySchema;
}

export interface ConfigKey {
  /** Dotted, snake_case: `algorithm.loss.clip_low`. */
  readonly path: string;
  /** Its last part. */
  readonly name: string;
  readonly schema: KeySchema;
  readonly description: string;
}

export interface ConfigTable {
  /** Dotted; empty for the whole configuration. */
  readonly path: string;
  readonly description: string;
  /** The whole table may be left out; it is then null. */
  readonly optional: boolean;
  readonly keys: readonly ConfigKey[];
  readonly tables: readonly ConfigTable[];
}

/** The keys and subtables of a table, each in schema order. */
export function configTable(schema: KeySchema, path = '', optional = false): ConfigTable {
  const keys: ConfigKey[] = [];
  const tables: ConfigTable[] = [];
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const inner = path === '' ? name : `${path}.${name}`;
    const table = tableSchema(property);
    if (table !== null) tables.push(configTable(table, inner, isNullable(property)));
    else keys.push({ path: inner, name, schema: property, description: property.description ?? '' });
  }
  return { path, description: schema.description ?? '', optional, keys, tables };
}

/** Every key of a table and its subtables. */
export function configKeys(table: ConfigTable): readonly ConfigKey[] {
  return [...table.keys, ...table.tables.flatMap(configKeys)];
}

/** The schema of a table with defined keys, nullable or not; null for any other key. */
export function tableSchema(schema: KeySchema): KeySchema | null {
  if (schema.properties !== undefined) return schema;
  return schema.anyOf?.find((choice) => choice.properties !== undefined) ?? null;
}

/** True for a table with free keys: arguments, environment variables. */
export function isFreeTable(schema: KeySchema): boolean {
  return schema.type === 'object' && schema.properties === undefined;
}

/** The schema of each table in a table of tables whose names the user chooses, such as the roles; null for any other key. */
export function entryTable({ additionalProperties: entry }: KeySchema): KeySchema | null {
  return typeof entry === 'object' && entry.properties !== undefined ? entry : null;
}

export function isNullable(schema: KeySchema): boolean {
  return acceptsType(schema, 'null');
}

/** Tells whether a value of this JSON type is allowed. */
export function acceptsType(schema: KeySchema, type: string): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((choice) => acceptsType(choice, type));
  if (schema.enum !== undefined) return schema.enum.some((value) => typeof value === type);
  return typeof schema.type === 'string' ? schema.type === type : (schema.type ?? []).includes(type);
}

/** Fills in the schema's defaults; keys without a default stay absent. Checks nothing. */
export function withDefaults(schema: KeySchema, values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const filled: Record<string, unknown> = { ...values };
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const table = tableSchema(property);
    const value = values[name];
    const wanted = value === undefined && !isNullable(property) ? {} : value;
    if (table !== null && isObject(wanted)) filled[name] = withDefaults(table, wanted);
    else if (value === undefined && property.default !== undefined) filled[name] = structuredClone(property.default);
  }
  return filled;
}

/** Describes the allowed values, in words that can follow "to be". */
export function allowedText(schema: KeySchema): string {
  const choices = schema.anyOf?.map(allowedText) ?? [allowedValue(schema)];
  return [...choices.filter((choice) => choice !== 'null'), ...(isNullable(schema) ? ['null'] : [])].join(' or ');
}

function allowedValue(schema: KeySchema): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' or ');
  if (schema.properties !== undefined) return 'a table';
  const type = typeof schema.type === 'string' ? schema.type : schema.type?.find((name) => name !== 'null');
  switch (type) {
    case 'integer':
      return `an integer${rangeText(schema)}`;
    case 'number':
      return `a number${rangeText(schema)}`;
    case 'boolean':
      return 'true or false';
    case 'array':
      return `a list of ${schema.items?.enum?.join(', ') ?? schema.items?.title ?? 'strings'}`;
    case 'object':
      return 'a table';
    case 'null':
      return 'null';
    default:
      return schema.title ?? 'a non-empty string';
  }
}

function rangeText({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: KeySchema): string {
  const low = minimum !== undefined ? `from ${minimum}` : exclusiveMinimum !== undefined ? `above ${exclusiveMinimum}` : null;
  const high =
    maximum !== undefined && maximum !== Number.MAX_SAFE_INTEGER
      ? `to ${maximum}`
      : exclusiveMaximum !== undefined
        ? `below ${exclusiveMaximum}`
        : null;
  if (low === null && high === null) return '';
  if (high === null) return minimum === undefined ? ` ${low}` : ` of at least ${minimum}`;
  return ` ${[low, high].filter((end) => end !== null).join(' ')}`;
}

/** `a.b.c` and a value as `{ a: { b: { c: value } } }`. */
export function nestedTable(key: string, value: unknown): Record<string, unknown> {
  return key.split('.').reduceRight<unknown>((inner, part) => ({ [part]: inner }), value) as Record<string, unknown>;
}
