/** Makes tools of plain functions. */
import { listOf, text } from '../../schemas/json-schema.ts';
import type { PipelineTool } from '../pipeline-server.ts';
import { parseToolIo } from '../tool-io.ts';

export const texts = listOf(text);
export const textLists = listOf(listOf(text));

/** A tool with one list of texts in and one list out: `a->b`. */
export function perText(io: string, description: string, each: (text: string) => unknown): PipelineTool {
  const { inputs, outputs } = parseToolIo(io, io);
  const [input, output] = [inputs[0]!.argument, outputs[0]!];
  return {
    io,
    description,
    arguments: { [input]: texts },
    isPerItem: true,
    run: async (args) => ({ [output]: (args[input] as readonly string[]).map(each) }),
  };
}

/** The items of several lists in parallel, up to the length of the shortest. */
export function zipped(args: Readonly<Record<string, unknown>>, names: readonly string[]): Readonly<Record<string, unknown>>[] {
  const lists = names.map((name) => [name, args[name] as readonly unknown[]] as const);
  const length = Math.min(...lists.map(([, list]) => list.length));
  return Array.from({ length }, (_, i) => Object.fromEntries(lists.map(([name, list]) => [name, list[i]])));
}
