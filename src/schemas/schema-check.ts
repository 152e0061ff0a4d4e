/** Compiles JSON Schemas with one Ajv for the whole package. */
import { Ajv, type ValidateFunction } from 'ajv';
import type { XStatic } from 'typebox/schema';

let ajv: Ajv | undefined;

/** The validator of a schema object, compiled on first use and cached: a command needs few of them, and compiling one takes milliseconds. */
export function schemaCheck<S extends object>(schema: S): ValidateFunction<XStatic<S>> {
  // No meta-schema: compiling it takes longer than all of our schemas, and Ajv's strict mode finds misspelled keywords.
  ajv ??= new Ajv({ allowUnionTypes: true, meta: false, validateSchema: false });
  return ajv.compile<XStatic<S>>(schema);
}
