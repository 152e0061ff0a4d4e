import type { CallContext, Values } from '../../../src/pipelines/pipeline-server.ts';

export interface TestContext extends CallContext {
  readonly failures: Map<number, unknown>;
  readonly recorded: Map<number, unknown>;
}

/** A call without a run around it. */
export function callContext(
  parameters: Values = {},
  known: ReadonlyMap<number, unknown> = new Map(),
  signal = new AbortController().signal,
): TestContext {
  const failures = new Map<number, unknown>();
  const recorded = new Map<number, unknown>();
  return {
    parameters,
    resolve: (path) => path,
    signal,
    recall: (position) => known.get(position),
    record: (position, reply) => void recorded.set(position, reply),
    fail: (position, error) => void failures.set(position, error),
    failures,
    recorded,
  };
}
