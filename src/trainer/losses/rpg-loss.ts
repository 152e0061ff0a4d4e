/**
 * Regularised policy gradient (RPG, arXiv 2505.17508) with the reverse KL to the old policy inside the weighted term: l = w (−R + β ln w) per token, with
 * w = π / π_old and the advantage as R. Its gradient is w (−R + β (ln w + 1)) ∇ log π: at w = 1 that of −(R − β).
 */
import { type Aggregation, tokenWeight } from './aggregation.ts';
import { meanMetric } from './loss-metrics.ts';
import { checkLayout, lengthOf } from './token-counts.ts';
import { checkColumns, type LossMetrics, type LossNeeds, type TokenCounts, type TokenLoss } from '../token-loss.ts';

/** A number for all roles, or one per role. */
export type ByRole = number | Readonly<Record<string, number>>;

export interface RpgLossConfig {
  /** w per token, or one per sequence, exp(mean of ln w over its trained tokens). */
  readonly ratio: 'token' | 'sequence';
  /** ln w is clamped to [−c, c]; outside, its gradient is 0. Self-play uses 2.3. Null: no bound. */
  readonly logRatioClamp: number | null;
  /** β, the weight of the KL term. */
  readonly beta: ByRole;
  /** λ, factor of a sequence's losses. @default 1 */
  readonly weight?: ByRole;
  /** `role_token_mean`: the sum over roles of λ times the mean over the role's tokens. */
  readonly aggregation: Aggregation | { readonly kind: 'role_token_mean' };
}

const NEEDS: LossNeeds = { old: true, reference: false, sampler: false };

/**
 * Metrics: `rpg_loss`, `ratio_mean`, `ratio_min`, `ratio_max`, `approx_kl`, and if sequences have roles, `approx_kl/<role>`,
 * `approx_kl_k1/<role>`, `ratio_mean/<role>` and `ratio_max/<role>`.
 */
export function rpgLoss(config: RpgLossConfig): TokenLoss {
  const { ratio, logRatioClamp, beta, weight: lambda = 1 } = config;
  const limit = logRatioClamp ?? Infinity;
  return {
    needs: NEEDS,
    evaluate(batch, counts) {
      const { offsets, logProbs, advantages, roles } = batch;
      checkColumns(NEEDS, batch);
      checkLayout(batch, counts);
      const old = batch.oldLogProbs!;
      const gradient = new Float64Array(logProbs.length);
      const sums = new Map<string, RoleSums>();
      let loss = 0;
      for (let i = 0; i < offsets.length - 1; i++) {
        const [start, end] = [offsets[i]!, offsets[i + 1]!];
        if (start === end) continue;
        const role = roles?.[i] ?? '';
        const own = sums.get(role) ?? { tokens: 0, ratio: 0, logRatio: 0, min: Infinity, max: -Infinity };
        sums.set(role, own);
        const [b, scale] = [valueOf(beta, role, 'beta'), valueOf(lambda, role, 'weight') * divided(config, lengthOf(batch, i), role, counts)];
        const clamped = (t: number) => Math.min(Math.max(logProbs[t]! - old[t]!, -limit), limit);
        let mean = 0;
        for (let t = start; t < end; t++) mean += clamped(t) / (end - start);
        let total = 0;
        for (let t = start; t < end; t++) {
          const lnW = ratio === 'sequence' ? mean : clamped(t);
          const w = Math.exp(lnW);
          const reward = advantages[t]!;
          loss += scale * w * (-reward + b * lnW);
          gradient[t] = scale * w * (-reward + b * (lnW + 1));
          total += gradient[t]!;
          add(own, lnW);
        }
        if (ratio === 'sequence') gradient.fill(total / (end - start), start, end);
        for (let t = start; t < end; t++) if (Math.abs(logProbs[t]! - old[t]!) > limit) gradient[t] = 0;
      }
      return { loss, gradient, metrics: metricsOf(loss, sums) };
    },
  };
}

interface RoleSums {
  tokens: number;
  ratio: number;
  logRatio: number;
  min: number;
  max: number;
}

function add(sums: RoleSums, lnW: number): void {
  const w = Math.exp(lnW);
  sums.tokens++;
  sums.ratio += w;
  sums.logRatio += lnW;
  sums.min = Math.min(sums.min, w);
  sums.max = Math.max(sums.max, w);
}

function metricsOf(loss: number, byRole: ReadonlyMap<string, RoleSums>): LossMetrics {
  const all = [...byRole.values()];
  const tokens = all.reduce((sum, own) => sum + own.tokens, 0);
  if (tokens === 0) return { rpg_loss: { merge: 'sum', value: loss } };
  const kl = ({ ratio, tokens: count, logRatio }: RoleSums) => meanMetric(ratio - count - logRatio, count);
  const perRole = [...byRole].flatMap(([role, own]) => [
    [`approx_kl/${role}`, kl(own)] as const,
    [`approx_kl_k1/${role}`, meanMetric(-own.logRatio, own.tokens)] as const,
    [`ratio_mean/${role}`, meanMetric(own.ratio, own.tokens)] as const,
    [`ratio_max/${role}`, { merge: 'max', value: own.max }] as const,
  ]);
  const [ratio, logRatio] = [all.reduce((sum, own) => sum + own.ratio, 0), all.reduce((sum, own) => sum + own.logRatio, 0)];
  return {
    rpg_loss: { merge: 'sum', value: loss },
    ratio_mean: meanMetric(ratio, tokens),
    ratio_min: { merge: 'min', value: Math.min(...all.map(({ min }) => min)) },
    ratio_max: { merge: 'max', value: Math.max(...all.map(({ max }) => max)) },
    approx_kl: meanMetric(ratio - tokens - logRatio, tokens),
    ...(byRole.has('') ? {} : Object.fromEntries(perRole)),
  };
}

function divided({ aggregation }: RpgLossConfig, length: number, role: string, counts: TokenCounts): number {
  if (aggregation.kind !== 'role_token_mean') return tokenWeight(aggregation, length, counts);
  const tokens = counts.tokensByRole?.get(role);
  if (tokens === undefined) throw new RangeError(`role_token_mean needs the tokens of each role, but counts has none for ${JSON.stringify(role)}`);
  return 1 / Math.max(tokens, 1);
}

function valueOf(byRole: ByRole, role: string, name: string): number {
  if (typeof byRole === 'number') return byRole;
  const value = byRole[role];
  if (value === undefined)
    throw new RangeError(`${name} has no value for the role ${JSON.stringify(role)}; it has ${Object.keys(byRole).join(', ')}`);
  return value;
}
