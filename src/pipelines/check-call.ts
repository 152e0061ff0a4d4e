/** Checks the arguments and the reply of a call against its tool's declaration. */
import { schemaCheck, schemaProblem } from '../schemas/schema-check.ts';
import { PipelineError } from './pipeline-error.ts';
import type { PlannedCall } from './pipeline-plan.ts';
import type { PipelineTool, Values } from './pipeline-server.ts';

/** Throws PipelineError for a value of the wrong kind, or lists of unequal lengths. */
export function checkArguments({ name, place, tool, inputs }: PlannedCall, args: Values): void {
  const where = `${name} (step ${place})`;
  if (tool.arguments !== undefined) {
    const check = schemaCheck(argumentsSchema(tool));
    if (!check(args)) throw new PipelineError(`${where}: ${schemaProblem(check, 'the input')}`, { failure: 'value' });
  }
  if (tool.isPerItem !== true) return;
  const lists = inputs.filter(({ argument, from }) => from === 'variable' && Array.isArray(args[argument]));
  const [first] = lists;
  const other = lists.find(({ argument }) => lengthOf(args[argument]) !== lengthOf(args[first!.argument]));
  if (first === undefined || other === undefined) return;
  throw new PipelineError(
    `${where} got lists of unequal lengths: ${lengthOf(args[first.argument])} ${first.name} and ${lengthOf(args[other.argument])} ${other.name}`,
    { failure: 'length' },
  );
}

/** Throws PipelineError if a tool that treats its lists question by question gave a list of another length. */
export function checkReply({ name, place, tool, inputs, outputs }: PlannedCall, args: Values, reply: Values): void {
  if (tool.isPerItem !== true) return;
  const list = inputs.find(({ argument, from }) => from === 'variable' && Array.isArray(args[argument]));
  if (list === undefined) return;
  const expected = lengthOf(args[list.argument]);
  const wrong = outputs.find(({ key, to }) => to === 'variable' && Array.isArray(reply[key]) && lengthOf(reply[key]) !== expected);
  if (wrong === undefined) return;
  throw new PipelineError(`${name} (step ${place}) gave a list of ${lengthOf(reply[wrong.key])} as ${wrong.key} for ${expected} ${list.name}`, {
    failure: 'length',
  });
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : NaN;
}

const schemas = new WeakMap<PipelineTool, object>();

function argumentsSchema(tool: PipelineTool): object {
  const known = schemas.get(tool);
  if (known !== undefined) return known;
  const properties = tool.arguments!;
  const schema = { type: 'object', properties, required: Object.keys(properties) };
  schemas.set(tool, schema);
  return schema;
}
