import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import { nllLoss } from '../../../src/trainer/losses/nll-loss.ts';
import type { LossFactory } from '../../../src/trainer/losses/registry.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';
import { someConfig } from '../some-config.ts';
import { batchOf } from './loss-batches.ts';

const of = (table: Record<string, unknown>, modules: Readonly<Record<string, LossFactory>> = {}) => {
  const config = someConfig(table);
  return lossTerms(config, { algorithm: config.algorithm, responseTokens: 640 }, new Map(Object.entries(modules)));
};
const facts = (terms: ReturnType<typeof of>) => terms.map(({ name, isMain, weight, on, roles }) => ({ name, isMain, weight, on, roles }));
const MAIN = { name: 'policy', isMain: true, weight: 1, on: 'rollouts', roles: null };

describe('lossTerms', () => {
  it('divides by a limit that there is: without one every gradient would be 0', () => {
    const config = someConfig({ algorithm: { loss: { aggregation: 'constant' } } });
    const { algorithm } = config;
    expect(() => lossTerms(config, { algorithm, responseTokens: Infinity }, new Map())).toThrow(
      /and the environment has no such limit\. Set algorithm\.loss\.max_tokens$/,
    );
    expect(lossTerms(config, { algorithm, responseTokens: 640 }, new Map())).toHaveLength(1);
    const { algorithm: own } = someConfig({ algorithm: { loss: { aggregation: 'constant', max_tokens: 100 } } });
    expect(lossTerms(config, { algorithm: own, responseTokens: Infinity }, new Map())).toHaveLength(1);
  });

  it('is the ratio loss on all rollouts by default', () => {
    const [main, ...further] = of({});
    expect(facts([main!])).toEqual([MAIN]);
    expect(main!.loss.needs.old).toBe(true);
    expect(further).toEqual([]);
  });

  it('adds the losses of [losses] in their order, with weight, rows and roles', () => {
    const losses = { writer: { use: 'rpg', weight: 0.5, roles: ['writer'], args: { beta: 0.1 } }, plain: { use: 'nll' } };
    expect(facts(of({ algorithm: { loss: { use: 'nll' } }, losses }))).toEqual([
      MAIN,
      { name: 'writer', isMain: false, weight: 0.5, on: 'rollouts', roles: ['writer'] },
      { name: 'plain', isMain: false, weight: 1, on: 'rollouts', roles: null },
    ]);
  });

  it('adds the supervised loss of [sft], unless another loss is taken on demonstrations', () => {
    const sft = { data: 'rows.jsonl' };
    expect(facts(of({ sft })).slice(1)).toEqual([{ name: 'sft', isMain: false, weight: 1, on: 'demonstrations', roles: null }]);
    const losses = { mine: { use: 'nll', on: 'demonstrations' } };
    expect(facts(of({ sft, losses })).map(({ name }) => name)).toEqual(['policy', 'mine']);
  });

  it('gives the supervised loss its own aggregation', () => {
    const term = of({ sft: { data: 'rows.jsonl', aggregation: 'sequence_mean_token_sum' } })[1]!;
    const batch = batchOf([[-1, -2], [-3]], 1);
    expect(term.loss.evaluate(batch, countTokens(batch.offsets)).loss).toBe((1 + 2 + 3) / 2);
  });

  it('makes the loss of a module from its settings', () => {
    const seen: unknown[] = [];
    const factory: LossFactory = (args, context) => {
      seen.push(args, context.responseTokens);
      return nllLoss({ kind: 'sum' });
    };
    const [main] = of({ algorithm: { loss: { use: './mine.ts', args: { alpha: 2 } } } }, { './mine.ts': factory });
    expect(seen).toEqual([{ alpha: 2 }, 640]);
    expect(main!.loss.needs).toEqual({ old: false, reference: false, sampler: false });
  });

  it.each([
    [{ algorithm: { loss: { use: 'nlll' } } }, /^algorithm.loss.use = "nlll" is not a loss \(did you mean nll\?\); it is one of ratio, nll, rpg/],
    [{ algorithm: { loss: { use: 'constructor' } } }, /^algorithm.loss.use = "constructor" is not a loss; it is one of/],
    [{ losses: { extra: { use: 'rgp' } } }, /^losses.extra.use = "rgp" is not a loss \(did you mean rpg\?\)/],
    [{ losses: { extra: { weight: 2 } } }, /^losses.extra.use is not set/],
    [{ losses: { sft: { use: 'nll' } } }, /^losses.sft is the name of the loss of \[sft\]; choose another name/],
    [{ losses: { policy: { use: 'nll' } } }, /^losses.policy is the name of the loss of \[algorithm.loss\]; choose another name/],
    [{ losses: { extra: { use: 'rpg' } } }, /settings \(args\) of the loss rpg are wrong/],
  ])('refuses %j in one line', (table, message) => {
    expect(() => of(table)).toThrow(ConfigError);
    expect(() => of(table)).toThrow(message);
  });

  it.each([
    ['nothing', undefined],
    ['a promise', Promise.resolve(nllLoss({ kind: 'sum' }))],
    ['no needs', { evaluate: () => ({}) }],
    ['needs without the sampler', { needs: { old: true, reference: false }, evaluate: () => ({}) }],
  ])('refuses a module whose createLoss returns %s', (_, made) => {
    const factory = (() => made) as unknown as LossFactory;
    const open = () => of({ algorithm: { loss: { use: './mine.ts' } } }, { './mine.ts': factory });
    expect(open).toThrow(ConfigError);
    expect(open).toThrow(
      /^createLoss of .\/mine.ts \(algorithm.loss.use\) must (?:return \{ needs: \{ old, reference, sampler \}, evaluate|not be async)/,
    );
  });
});
