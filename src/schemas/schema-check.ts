/** Compiles JSON Schemas with one Ajv for the whole package. */
import { Ajv, type ValidateFunction } from 'ajv';
import type { XStatic } from 'typebox/schema';

let ajv: Ajv | undefined;

/** The validator of a schema object, compiled on first use and cached: a command needs few of them, and compiling one takes milliseconds. */
export function schemaCheck<S extends object>(schema: S): ValidateFunction<XStatic<S>> {
  // No meta-schema: compiling it takes longer than all schemas of the package, and Ajv's strict mode finds misspelled keywords.
  // addUsedSchema: two environments may each build a schema with the same `$id`, and Ajv would refuse the second one.
  ajv ??= new Ajv({ allowUnionTypes: true, meta: false, validateSchema: false, addUsedSchema: false });
  return ajv.compile<XStatic<S>>(schema);
}

/** Describes the fault in a value that the validator refused, such as `episodes[0].example_id must be a string or a number`. `whole` names the value itself. */
export function schemaProblem({ errors }: Pick<ValidateFunction, 'errors'>, whole: string): string {
  const { instancePath, message, keyword, params } = branchError(errors!);
  const place =
    instancePath
      .replaceAll(/\/(\d+)(?=\/|$)/g, '[$1]')
      .replaceAll('/', '.')
      .replace(/^\./, '') || whole;
  switch (keyword) {
    // Ajv's own texts for these do not say which values or keys they mean.
    case 'enum':
      return `${place} must be one of ${(params['allowedValues'] as readonly unknown[]).map((value) => JSON.stringify(value)).join(', ')}`;
    case 'additionalProperties':
      return `${place} must not have the key ${JSON.stringify(params['additionalProperty'])}`;
    case 'required':
      return `${place} must have the key ${JSON.stringify(params['missingProperty'])}`;
    case 'minItems':
      return `${place} must have at least ${counted(params['limit'] as number)}`;
    case 'maxItems':
      return `${place} must have at most ${counted(params['limit'] as number)}`;
    case 'minLength':
      return params['limit'] === 1 ? `${place} must not be empty` : `${place} must have at least ${params['limit']} characters`;
    case 'maxLength':
      return `${place} must have at most ${params['limit']} characters`;
    case 'type':
      return `${place} must be ${[params['type'] as string | string[]].flat().map(withArticle).join(' or ')}`;
    default:
      return `${place} ${message}`;
  }
}

type Errors = NonNullable<ValidateFunction['errors']>;

/** The first error. Of a choice of schemas, it is that of the branch whose type the value has, or the types of all branches. */
function branchError(errors: Errors): Errors[number] {
  const [first] = errors as [Errors[number]];
  const { instancePath } = first;
  const end = errors.findIndex((error) => error.keyword === 'anyOf' && error.instancePath === instancePath);
  if (first.keyword !== 'type' || end < 0) return first;
  const branches = errors.slice(0, end);
  const inside = branches.find((error) => error.keyword !== 'type' || error.instancePath !== instancePath);
  return inside ?? { ...first, params: { type: [...new Set(branches.flatMap(({ params }) => params['type'] as string | string[]))] } };
}

function counted(items: number): string {
  return items === 1 ? '1 item' : `${items} items`;
}

/** A type of JSON Schema in words. */
function withArticle(type: string): string {
  if (type === 'null') return type;
  return type === 'boolean' ? 'true or false' : `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`;
}
