/** Schemas of the worker's answers. Each answer is checked before any of it is used. */
import type { XStatic } from 'typebox/schema';
import { GradientError, type GradientErrorCode } from '../../../core/errors.ts';
import { schemaCheck } from '../../../schemas/schema-check.ts';

const text = { type: 'string' } as const;
const count = { type: 'integer', minimum: 0 } as const;
const countOrNull = { type: ['integer', 'null'], minimum: 0 } as const;
const flag = { type: 'boolean' } as const;
/** Every field is required; further ones are allowed. */
const answer = <const P extends object>(properties: P) => ({ type: 'object', required: Object.keys(properties), properties }) as const;

/** Makes every field required: TypeBox cannot infer that from the list of names that `answer` builds at run time. */
type Whole<T> = T extends readonly (infer E)[] ? Whole<E>[] : T extends object ? { [K in keyof T]-?: Whole<T[K]> } : T;

const helloSchema = answer({
  protocol: count,
  python: text,
  torch: text,
  transformers: text,
  device: text,
  device_name: text,
  dtype: text,
  threads: count,
  entropy_gradient: flag,
  memory_bytes: countOrNull,
});
const baseSchema = answer({ vocabulary_size: count, parameters: count, fingerprint: text, attention: text });
const moduleSchema = answer({ path: text, in_features: count, out_features: count });
const adapterSchema = answer({ modules: { type: 'array', minItems: 1, items: moduleSchema }, trainable: count });
/** `grad_norm` is a string, because JSON has no NaN. */
const stepSchema = answer({ step: count, grad_norm: text, skipped: flag });
const filesSchema = answer({ files: { type: 'array', minItems: 1, items: answer({ name: text, bytes: count, sha256: text }) } });
const stateSchema = answer({ differences: { type: 'array', items: text } });
const errorSchema = answer({ code: text, text });

export type HelloAnswer = Whole<XStatic<typeof helloSchema>>;
export type BaseAnswer = Whole<XStatic<typeof baseSchema>>;

const readers = {
  hello: reader('hello', helloSchema),
  base: reader('load_base', baseSchema),
  adapter: reader('create_adapter', adapterSchema),
  step: reader('optim_step', stepSchema),
  files: reader('save_adapter', filesSchema),
  state: reader('load_state', stateSchema),
  error: reader('a failed call', errorSchema),
};
export const {
  hello: readHello,
  base: readBase,
  adapter: readAdapter,
  step: readStep,
  files: readFiles,
  state: readState,
  error: readError,
} = readers;

const CODES: ReadonlySet<string> = new Set<GradientErrorCode>(['out_of_memory', 'bad_input', 'not_finite', 'internal']);

/** The worker's code as a GradientErrorCode; an unknown code counts as `internal`. */
export function gradientErrorCode(code: string): GradientErrorCode {
  return CODES.has(code) ? (code as GradientErrorCode) : 'internal';
}

function reader<const S extends object>(name: string, schema: S): (header: unknown) => Whole<XStatic<S>> {
  return (header) => {
    const check = schemaCheck<Whole<XStatic<S>>>(schema);
    if (check(header)) return header;
    const at = check.errors?.[0];
    const message = `The torch worker's answer to ${name} does not fit this release: ${at?.instancePath || 'it'} ${at?.message ?? 'is invalid'}; reinstall vf-search`;
    throw new GradientError(message, { code: 'internal' });
  };
}
