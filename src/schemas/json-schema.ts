/** Building blocks of JSON Schemas. Ajv checks them as they are; `XStatic<typeof schema>` of typebox is the exact type of what one accepts. */

export const text = { type: 'string' } as const;
/** A relative path with forward slashes that does not climb. */
export const pathInside = { type: 'string', pattern: String.raw`^(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\\]+$` } as const;
export const filledText = { type: 'string', minLength: 1 } as const;
/** The URL of a server that a request names. */
export const serverUrl = { ...filledText, maxLength: 2048 } as const;
export const number = { type: 'number' } as const;
/** Beyond it two integers may be one number. */
export const MOST_INTEGER = Number.MAX_SAFE_INTEGER;
export const integer = { type: 'integer', minimum: -MOST_INTEGER, maximum: MOST_INTEGER } as const;
export const count = { type: 'integer', minimum: 0, maximum: MOST_INTEGER } as const;
/** Whole in this package's files; readers accept any number. Written without a fraction: `1`, not `1.0`. */
export const seed = { type: ['integer', 'number'] } as const;
export const atLeastOne = { type: 'integer', minimum: 1, maximum: MOST_INTEGER } as const;
export const flag = { type: 'boolean' } as const;
export const textOrNull = { type: ['string', 'null'] } as const;
export const numberOrNull = { type: ['number', 'null'] } as const;
export const countOrNull = { type: ['integer', 'null'], minimum: 0, maximum: MOST_INTEGER } as const;
export const flagOrNull = { type: ['boolean', 'null'] } as const;
export const textOrNumber = { type: ['string', 'number'] } as const;
/** An object with any keys. */
export const json = { type: 'object', additionalProperties: true } as const;
/** Ids fit into an Int32Array. */
export const tokenIds = { type: 'array', items: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 } } as const;

export const only = <const V>(value: V) => ({ const: value }) as const;
export const choice = <const V extends readonly (string | number)[]>(...values: V) => ({ enum: values }) as const;
export const anyOf = <const S extends readonly object[]>(...schemas: S) => ({ anyOf: schemas }) as const;
export const nullable = <const S extends object>(schema: S) => ({ anyOf: [schema, { type: 'null' }] }) as const;
export const listOf = <const S extends object>(items: S) => ({ type: 'array', items }) as const;
export const filledListOf = <const S extends object>(items: S) => ({ type: 'array', items, minItems: 1 }) as const;
/** An object whose keys are names from elsewhere. */
export const byName = <const S extends object>(values: S) => ({ type: 'object', additionalProperties: values }) as const;

/** An object with these properties; others are allowed. */
export const object = <const R extends object, const O extends object = object>(required: R, optional = {} as O) =>
  ({
    type: 'object',
    // Typed as one item, which may be any of the keys: typebox reads required keys off a tuple only, and takes the union of its items.
    required: Object.keys(required) as unknown as readonly [keyof R],
    properties: { ...required, ...optional },
  }) as const;

/** An object with these properties and no others. */
export const closed = <const R extends object, const O extends object = object>(required: R, optional = {} as O) =>
  ({ ...object(required, optional), additionalProperties: false }) as const;
