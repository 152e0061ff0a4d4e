/** Compiles JSON Schemas with one Ajv for the whole package. */
import { Ajv, type ValidateFunction } from 'ajv';
import type { XStatic } from 'typebox/schema';

let ajv: Ajv | undefined;

/** The validator of a schema object, compiled on first use and cached: a command needs few of them, and compiling one takes milliseconds. */
export function schemaCheck<S extends object>(schema: S): ValidateFunction<XStatic<S>> {
  // No meta-schema: compiling it takes longer than all of our schemas, and Ajv's strict mode finds misspelled keywords.
  // addUsedSchema: two environments may each build a schema with the same `$id`, and Ajv would refuse the second one.
  ajv ??= new Ajv({ allowUnionTypes: true, meta: false, validateSchema: false, addUsedSchema: false });
  return ajv.compile<XStatic<S>>(schema);
}

/** What is wrong with a value that the validator refused, such as `policy.model must be string`. `whole` names the value itself. */
export function schemaProblem({ errors }: Pick<ValidateFunction, 'errors'>, whole: string): string {
  const { instancePath, message } = errors![0]!;
  return `${instancePath.slice(1).replaceAll('/', '.') || whole} ${message}`;
}
