/** The counts of calls that every environment with tools adds to its rubric. */
import type { Row } from './dataset.ts';
import { RewardError } from './errors.ts';
import { metric, Rubric } from './rubric.ts';
import { RubricGroup } from './rubric-group.ts';
import type { Tool } from './tool.ts';
import type { ToolState } from './tool-use.ts';

export function withToolMetrics<R extends Row>(rubric: Rubric<R>, tools: readonly Tool[]): Rubric<R> {
  const funcs = [
    metric<R>(({ state }) => Object.values(counted(state).calls).reduce((a, b) => a + b, 0), { name: 'total_tool_calls', isCount: true }),
    metric<R>(({ state }) => counted(state).badCalls, { name: 'bad_tool_calls', isCount: true }),
    // A subclass may make its own state, and the file of an older run may have none of it.
    metric<R>(({ state }) => counted(state).toolErrors ?? 0, { name: 'tool_errors', isCount: true }),
    ...tools.map((tool) => metric<R>(({ state }) => counted(state).calls[tool.name] ?? 0, { name: `${tool.name}_calls`, isCount: true })),
  ];
  // A subclass may score by itself, which `extend` of Rubric does not keep.
  if (rubric.constructor === Rubric || rubric.extend !== Rubric.prototype.extend) return rubric.extend(funcs);
  return new RubricGroup([rubric, new Rubric({ funcs, parser: rubric.parser })]);
}

/** Throws RewardError if an episode that was played elsewhere is scored without its state. */
function counted(state: Readonly<Record<string, unknown>>): Pick<ToolState, 'calls' | 'badCalls'> & { readonly toolErrors?: number } {
  if (state['calls'] === undefined) throw new RewardError('the calls are counted in the episode\'s state, which is missing. Pass it as "state".');
  return state as unknown as ToolState;
}
