/** The notation of inputs and outputs: `a,b->c`. */
import { PipelineFileError } from './pipeline-error.ts';

interface ToolInput {
  readonly argument: string;
  /** A variable or a parameter. */
  readonly name: string;
}

export interface ToolIo {
  readonly inputs: readonly ToolInput[];
  readonly outputs: readonly string[];
}

/** Reads `a,argument=b->c`. `None` or nothing after the arrow means no output. Throws PipelineFileError; `tool` names it there. */
export function parseToolIo(io: string, tool: string): ToolIo {
  const sides = io.split('->');
  const [left = '', right = ''] = sides;
  const inputs = listed(left).map((part) => {
    const [argument, name = argument, ...rest] = part.split('=').map((word) => word.trim());
    return rest.length === 0 && argument && name ? { argument, name } : null;
  });
  const outputs = listed(right).filter((name) => name !== 'None');
  const names = [...inputs.map((input) => input?.argument ?? ''), ...outputs];
  const isTwice = new Set(inputs.map((input) => input?.argument)).size < inputs.length || new Set(outputs).size < outputs.length;
  if (sides.length > 2 || isTwice || names.some((name) => !/^\$?[\w-]+$/.test(name))) {
    throw new PipelineFileError(`The inputs and outputs of ${tool} are ${JSON.stringify(io)}; write them as a,b->c, each name once`, {
      fault: 'tool',
    });
  }
  return { inputs: inputs as readonly ToolInput[], outputs };
}

function listed(text: string): string[] {
  return text.trim() === '' ? [] : text.split(',').map((part) => part.trim());
}
