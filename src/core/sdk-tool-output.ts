/** What a model reads of the result of a tool of the AI SDK: the text that the SDK's providers of chat APIs send. */
import { fieldsOf, isObject } from '../schemas/is-object.ts';

/** `problem` names what no text can show, worded to follow "returned". */
export function toolOutputText(output: unknown): { readonly text: string } | { readonly problem: string } {
  const { type, value, reason } = fieldsOf(output);
  switch (type) {
    case 'text':
    case 'error-text':
      return { text: String(value) };
    case 'execution-denied':
      return { text: typeof reason === 'string' ? reason : 'Tool call execution denied.' };
    case 'json':
    case 'error-json':
      return { text: JSON.stringify(value) ?? 'null' };
    case 'content': {
      const other = Array.isArray(value) ? value.find((part) => fieldsOf(part)['type'] !== 'text') : undefined;
      if (other === undefined) return { text: JSON.stringify(value) };
      return { problem: `a part of the type ${JSON.stringify(fieldsOf(other)['type'])}, and the policy reads text only` };
    }
    default:
      return { problem: isObject(output) ? `an output of the type ${JSON.stringify(type)}, which is not known` : 'no output of a tool' };
  }
}
