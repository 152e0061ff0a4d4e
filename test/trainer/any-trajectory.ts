import fc from 'fast-check';
import type { FailureSource } from '../../src/rollouts/rollout.ts';
import type { Trajectory, TrajectoryBranch } from '../../src/trainer/trajectory.ts';

/** Negative zero is not a reward: `trajectoryOf` never gives it. */
const number = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0);
const count = fc.nat({ max: 1e6 });

/** Every possible trajectory: any ids that a vocabulary may have, any finite log-probs that a sampler may give (every NaN is of a failed sampler and never gets here), any text. */
export const anyTrajectory: fc.Arbitrary<Trajectory> = fc
  .record({
    prompt: fc.array(fc.nat({ max: 2 ** 24 - 1 }), { maxLength: 5 }),
    response: fc.array(
      fc.record({ id: count, isSampled: fc.boolean(), logProb: fc.double({ min: -1e6, max: 1e-3, noNaN: true }), version: fc.nat({ max: 3 }) }),
      { maxLength: 40 },
    ),
    severalVersions: fc.boolean(),
    knowsLogProbs: fc.boolean(),
    rest: fc.record({
      rolloutId: fc.string({ unit: 'binary' }),
      groupId: fc.string({ unit: 'binary' }),
      index: count,
      metrics: fc.dictionary(fc.string(), number, { noNullPrototype: true }),
      stop: fc.string(),
      isTruncated: fc.boolean(),
      isCut: fc.boolean(),
      policy: fc.record({ model: fc.string(), version: count }),
      role: fc.oneof(fc.constant('policy'), fc.string()),
      task: fc.option(fc.string()),
      turns: count,
      segments: fc.array(fc.record({ kind: fc.constantFrom('model', 'observation', 'corrective'), text: fc.string({ unit: 'binary' }) })),
      usage: fc.record({ inputTokens: count, outputTokens: count, cachedTokens: fc.option(count) }),
    }),
    outcome: fc.oneof(
      fc.record({ reward: number, error: fc.constant(null) }),
      fc.record({ reward: fc.constant(null), error: fc.constant(null), isUnpaid: fc.constant(true as const) }),
      fc.record({
        reward: fc.constant(null),
        error: fc.record({
          type: fc.string(),
          message: fc.constant('down'),
          retryable: fc.boolean(),
          source: fc.constantFrom<FailureSource>('policy', 'environment', 'model', 'reward'),
        }),
      }),
    ),
  })
  .map(({ prompt, response, severalVersions, knowsLogProbs, rest, outcome }) => {
    const sampled = response.map((token, i) => ({ ...token, at: prompt.length + i })).filter(({ isSampled }) => isSampled);
    return {
      ...(rest as Omit<Trajectory, 'reward' | 'error' | 'ids' | 'promptLength' | 'targets' | 'logProbs'>),
      ...outcome,
      promptLength: prompt.length,
      ids: Int32Array.from([...prompt, ...response.map(({ id }) => id)]),
      targets: Int32Array.from(sampled, ({ at }) => at),
      logProbs: knowsLogProbs ? Float64Array.from(sampled, ({ logProb }) => logProb) : null,
      ...(severalVersions ? { versions: Int32Array.from(sampled, ({ version }) => version) } : {}),
    };
  });

/** As any, cut into branches at places where no target begins one, some with a role or a reward. */
export const anyBranchedTrajectory: fc.Arbitrary<Trajectory> = fc
  .tuple(
    // Nothing predicts the first token of a sequence.
    anyTrajectory.filter(({ targets }) => targets[0] !== 0),
    fc.array(
      fc.record({ at: fc.nat({ max: 44 }), parent: fc.option(fc.nat()), role: fc.option(fc.string({ minLength: 1 })), reward: fc.option(number) }),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
  )
  .map(([whole, parts]) => {
    const { ids, targets, promptLength } = whole;
    const isTarget = new Set(targets);
    const ends = [...new Set([...parts.map(({ at }) => at).filter((at) => at > promptLength && at < ids.length && !isTarget.has(at)), ids.length])];
    const branches = ends
      .toSorted((a, b) => a - b)
      .map((end, i, all): TrajectoryBranch => {
        const start = i === 0 ? 0 : all[i - 1]!;
        const { parent, role, reward } = parts[i % parts.length]!;
        const first = targets.find((at) => at >= start && at < end) ?? end;
        return {
          start,
          end,
          promptLength: i === 0 ? promptLength : first - start,
          parent: parent === null || i === 0 ? null : parent % i,
          ...(role === null ? {} : { role }),
          ...(reward === null ? {} : { reward }),
        };
      });
    const last = parts.length % branches.length;
    return { ...whole, branches: branches.map((branch, i) => (i === last && i < branches.length - 1 ? { ...branch, endsLast: true } : branch)) };
  });
