/** Checks the tools that an environment offers natively: its code may be JavaScript that no compiler has read. */
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { returnedText } from './returned-text.ts';

/** Describes the fault in a list of tools, such as `tools[0].name must be a string, got 5`; null if there is none. */
export function toolsProblem(tools: unknown): string | null {
  if (!Array.isArray(tools)) return `tools must be a list of { name, description, parameters }, got ${returnedText(tools)}`;
  for (const [i, tool] of (tools as readonly unknown[]).entries()) {
    if (!isObject(tool)) return `tools[${i}] must be { name, description, parameters }, got ${returnedText(tool)}`;
    const { name, description = '', parameters = {} } = fieldsOf(tool);
    if (typeof name !== 'string' || name === '') return `tools[${i}].name must be a string, got ${returnedText(name)}`;
    if (typeof description !== 'string') return `tools[${i}].description must be a string, got ${returnedText(description)}`;
    if (!isObject(parameters)) return `tools[${i}].parameters must be a JSON Schema, got ${returnedText(parameters)}`;
  }
  return null;
}
