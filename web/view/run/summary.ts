/** Reads the summary of an evaluation, the object of `vf-eval --json` (docs/results.md). It came over the wire, so parts with another shape are left out. */
import type { Estimate, EvaluationDetail } from '../../../src/viewing/view-wire.ts';

export interface Summary {
  readonly reward: Estimate | null;
  readonly estimates: readonly { readonly name: string; readonly estimate: Estimate | null }[];
  readonly rollouts: { readonly planned: number; readonly finished: number; readonly errored: number };
  readonly examples: number | null;
  readonly rolloutsPerExample: number | null;
  readonly stops: readonly (readonly [string, number])[];
  readonly errors: readonly { readonly name: string; readonly count: number; readonly example: string | null }[];
  /** Where conversations of agents left what had been said, by kind. */
  readonly forks: readonly { readonly name: string; readonly count: number; readonly example: string | null }[];
  /** Rollouts with a fork. */
  readonly forked: number | null;
  /** Requests of agents that were answered from the record, or refused with what the first of them was told. */
  readonly requests: readonly { readonly name: string; readonly count: number; readonly example: string | null }[];
  readonly passes: readonly { readonly k: number; readonly any: Estimate | null; readonly all: Estimate | null }[];
  readonly passThreshold: number | null;
  readonly tokens: readonly { readonly name: string; readonly value: number }[];
  readonly roles: readonly RoleFigures[];
  readonly seconds: number | null;
  /** US dollars; null if nothing has a price. */
  readonly cost: number | null;
  readonly notices: readonly string[];
}

export interface RoleFigures {
  readonly role: string;
  readonly models: string;
  readonly calls: number | null;
  readonly cacheHits: number | null;
  readonly failures: number | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly p50Ms: number | null;
  readonly p90Ms: number | null;
}

export function readSummary(detail: EvaluationDetail): Summary | null {
  const s = detail.summary;
  if (s === null) return null;
  const [rollouts, any, all] = [recordOf(s['rollouts']), recordOf(s['pass_at_k']), recordOf(s['pass_all_k'])];
  const errors = recordOf(s['errors']);
  const examples = recordOf(s['error_examples']);
  return {
    reward: estimateOf(s['reward']),
    estimates: [
      ...Object.entries(recordOf(s['metrics'])).map(([name, value]) => ({ name, estimate: estimateOf(value) })),
      ...('turns' in recordOf(s['metrics']) ? [] : [{ name: 'turns per rollout', estimate: estimateOf(s['turns']) }]),
      { name: 'truncated', estimate: estimateOf(s['truncated']) },
    ],
    rollouts: {
      planned: numberOf(rollouts['planned']) ?? detail.run.planned ?? 0,
      finished: numberOf(rollouts['finished']) ?? 0,
      errored: numberOf(rollouts['errored']) ?? 0,
    },
    examples: numberOf(s['examples']),
    rolloutsPerExample: numberOf(s['rollouts_per_example']),
    stops: countsOf(s['stop_conditions']),
    errors: countsOf(errors).map(([name, count]) => ({ name, count, example: textOf(examples[name]) })),
    forks: Object.entries(recordOf(recordOf(s['forks'])['kinds'])).map(([name, value]) => {
      const { count, example } = recordOf(value);
      return { name, count: numberOf(count) ?? 0, example: textOf(example) };
    }),
    forked: numberOf(recordOf(s['forks'])['rollouts']),
    requests: ['repeats', 'refused'].flatMap((name) => {
      const { count, first } = recordOf(s[name]);
      return numberOf(count) === null ? [] : [{ name, count: numberOf(count)!, example: textOf(first) }];
    }),
    passes: Object.keys(any).map((k) => ({ k: Number(k), any: estimateOf(any[k]), all: estimateOf(all[k]) })),
    passThreshold: numberOf(s['pass_threshold']),
    tokens: tokensOf(recordOf(s['tokens'])),
    roles: Object.entries(recordOf(s['roles'])).map(([role, value]) => roleOf(role, recordOf(value))),
    seconds: numberOf(s['wall_seconds']),
    cost: numberOf(recordOf(s['cost'])['usd']),
    notices: Array.isArray(s['notices']) ? s['notices'].filter((notice) => typeof notice === 'string') : [],
  };
}

function roleOf(role: string, value: Record<string, unknown>): RoleFigures {
  const [tokens, latency] = [recordOf(value['tokens']), recordOf(value['latency_ms'])];
  return {
    role,
    models: Array.isArray(value['models']) ? value['models'].join(', ') : '',
    calls: numberOf(value['calls']),
    cacheHits: numberOf(value['cache_hits']),
    failures: numberOf(value['failures']),
    inputTokens: numberOf(tokens['input']),
    outputTokens: numberOf(tokens['output']),
    p50Ms: numberOf(latency['p50']),
    p90Ms: numberOf(latency['p90']),
  };
}

const TOKENS = { input: 'tokens read', output: 'tokens written', input_per_rollout: 'read per rollout', output_per_rollout: 'written per rollout' };

function tokensOf(value: Record<string, unknown>): { name: string; value: number }[] {
  return Object.entries(TOKENS).flatMap(([key, name]) => {
    const number = numberOf(value[key]);
    return number === null ? [] : [{ name, value: number }];
  });
}

function countsOf(value: unknown): [string, number][] {
  const counts = Object.entries(recordOf(value)).flatMap(([name, count]) => (typeof count === 'number' ? [[name, count] as [string, number]] : []));
  return counts.toSorted((a, b) => b[1] - a[1]);
}

function estimateOf(value: unknown): Estimate | null {
  const { value: mean, low, high, n } = recordOf(value);
  if (typeof mean !== 'number') return null;
  return { value: mean, low: numberOf(low), high: numberOf(high), n: numberOf(n) ?? 0 };
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null);
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);
