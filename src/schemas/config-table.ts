/** Building blocks of a configuration schema: keys with type, bounds, default and meaning. */

export const count = (description: string, value: number, minimum = 1) => ({ type: 'integer', minimum, default: value, description }) as const;
export const text = (description: string) => ({ type: 'string', minLength: 1, description }) as const;
export const textOrNull = (description: string) => ({ type: ['string', 'null'], minLength: 1, default: null, description }) as const;
export const share = (description: string, value: number) => ({ type: 'number', minimum: 0, maximum: 1, default: value, description }) as const;
export const flag = (description: string, value: boolean) => ({ type: 'boolean', default: value, description }) as const;
/** All keys are required, because defaults are filled in before validation. */
export const table = <const P extends object>(description: string, properties: P) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties, description }) as const;
export const free = (description: string) => ({ type: 'object', additionalProperties: true, default: {}, description }) as const;
