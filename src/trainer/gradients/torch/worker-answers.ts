/** Schemas of the worker's answers. Each answer is checked before any of it is used. */
import type { XStatic } from 'typebox/schema';
import { GradientError, type GradientErrorCode } from '../../../core/errors.ts';
import { count, countOrNull, filledListOf, flag, listOf, object, text } from '../../../schemas/json-schema.ts';
import { schemaCheck, schemaProblem } from '../../../schemas/schema-check.ts';

const helloSchema = object({
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
const baseSchema = object({ vocabulary_size: count, parameters: count, fingerprint: text, attention: text, sharded: flag, images: flag });
const moduleSchema = object({ path: text, in_features: count, out_features: count });
const adapterSchema = object({ modules: filledListOf(moduleSchema), trainable: count });
/** `grad_norm` is a string, because JSON has no NaN. */
const stepSchema = object({ step: count, grad_norm: text, skipped: flag });
const filesSchema = object({ files: filledListOf(object({ name: text, bytes: count, sha256: text })) });
const stateSchema = object({ differences: listOf(text) });
const finiteSchema = object({ finite: flag });
/** A string, as `grad_norm`. */
const movementSchema = object({ most: text });
const errorSchema = object({ code: text, text });

export type HelloAnswer = XStatic<typeof helloSchema>;
export type BaseAnswer = XStatic<typeof baseSchema>;

const readers = {
  hello: reader('hello', helloSchema),
  base: reader('load_base', baseSchema),
  adapter: reader('create_adapter', adapterSchema),
  step: reader('optim_step', stepSchema),
  files: reader('save_adapter', filesSchema),
  state: reader('load_state', stateSchema),
  finite: reader('is_finite', finiteSchema),
  movement: reader('movement', movementSchema),
  error: reader('a failed call', errorSchema),
};
export const {
  hello: readHello,
  base: readBase,
  adapter: readAdapter,
  step: readStep,
  files: readFiles,
  state: readState,
  finite: readFinite,
  movement: readMovement,
  error: readError,
} = readers;

const CODES: ReadonlySet<string> = new Set<GradientErrorCode>(['out_of_memory', 'bad_input', 'not_finite', 'internal']);

/** The worker's code as a GradientErrorCode; an unknown code counts as `internal`. */
export function gradientErrorCode(code: string): GradientErrorCode {
  return CODES.has(code) ? (code as GradientErrorCode) : 'internal';
}

function reader<const S extends object>(name: string, schema: S): (header: unknown) => XStatic<S> {
  return (header) => {
    const check = schemaCheck(schema);
    if (check(header)) return header;
    const message = `The torch worker's answer to ${name} does not fit this release: ${schemaProblem(check, 'it')}; reinstall vf-search`;
    throw new GradientError(message, { code: 'internal' });
  };
}
