/** Building blocks of a configuration schema: keys with type, bounds, default and meaning. */
import { closed, MOST_INTEGER } from './json-schema.ts';

interface Bounds {
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
}

export const count = (description: string, value: number, minimum = 1) =>
  ({ type: 'integer', minimum, maximum: MOST_INTEGER, default: value, description }) as const;
export const countOrNull = (description: string) =>
  ({ type: ['integer', 'null'], minimum: 1, maximum: MOST_INTEGER, default: null, description }) as const;
export const number = (description: string, value: number, bounds: Bounds = { minimum: 0 }) =>
  ({ type: 'number', ...bounds, default: value, description }) as const;
export const numberOrNull = (description: string, value: number | null, bounds: Bounds = { exclusiveMinimum: 0 }) =>
  ({ type: ['number', 'null'], ...bounds, default: value, description }) as const;
export const positive = (description: string, value: number) => number(description, value, { exclusiveMinimum: 0 });
export const share = (description: string, value: number) => number(description, value, { minimum: 0, maximum: 1 });
export const text = (description: string) => ({ type: 'string', minLength: 1, description }) as const;
export const textWith = (description: string, value: string) => ({ type: 'string', minLength: 1, default: value, description }) as const;
export const textOrNull = (description: string) => ({ type: ['string', 'null'], minLength: 1, default: null, description }) as const;
export const flag = (description: string, value: boolean) => ({ type: 'boolean', default: value, description }) as const;
/** Defaults to the first choice. */
export const choice = <const V extends readonly (string | number)[]>(choices: V, description: string, value: V[number] = choices[0]!) =>
  ({ enum: choices, default: value, description }) as const;
/** All keys are required, because defaults are filled in before validation. */
export const table = <const P extends object>(description: string, properties: P) => ({ ...closed(properties), description }) as const;
export const free = (description: string) => ({ type: 'object', additionalProperties: true, default: {}, description }) as const;
