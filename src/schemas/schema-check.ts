/** JSON Schema → a check, by one Ajv for the whole package. */
import { Ajv, type ValidateFunction } from 'ajv';

let ajv: Ajv | undefined;

/** The check of a schema object, compiled on its first use and kept: a command needs few of them, and compiling one takes milliseconds. */
export function schemaCheck<T>(schema: object): ValidateFunction<T> {
  // No meta-schema: compiling it takes longer than all of ours, and Ajv's strict mode finds what is misspelled in them.
  ajv ??= new Ajv({ allowUnionTypes: true, meta: false, validateSchema: false });
  return ajv.compile<T>(schema);
}
