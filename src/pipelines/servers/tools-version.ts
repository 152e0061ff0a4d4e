import type { Step } from '../pipeline.ts';

/**
 * The version whose tools a pipeline means: UltraRAG 2.0 and 3.0 give different tools the same names (`search_o1_check`, `search_o1_init`, `search_o1_insert`,
 * `search_o1_query_extract`, `generate`).
 */
export type ToolsVersion = '2.0' | '3.0';

export const TOOLS_VERSIONS: readonly ToolsVersion[] = ['2.0', '3.0'];

/** Tools that only 3.0 has. Each of its pipelines uses one of them. */
const SIGNS_OF_3 = new Set(['generation.generation_init', 'custom.search_o1_init_list', 'prompt.search_o1_reasoning_indocument']);

/** The version that the steps show: 3.0 if one of them is a tool that only 3.0 has. */
export function findToolsVersion(steps: readonly Step[]): ToolsVersion {
  return steps.some(isOf3) ? '3.0' : '2.0';
}

function isOf3(step: Step): boolean {
  if (step.kind === 'tool') return SIGNS_OF_3.has(`${step.server}.${step.tool}`);
  return step.kind === 'loop' ? step.steps.some(isOf3) : [...step.router, ...[...step.branches.values()].flat()].some(isOf3);
}
