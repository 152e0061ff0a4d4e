/** The preset's algorithm is the specification's: its own loss and credit, made from the resolved preset, give the numbers of the vectors. */
import { readFileSync } from 'node:fs';
import { parseConfig } from 'vf-search/environments/grpo-000';
import { describe, expect, it } from 'vitest';
import { flat, offsetsOf, rowsOf } from '../../parity/ragged-rows.ts';
import { isSame } from '../../parity/vectors.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';
import { groupAdvantages } from '../../../src/trainer/credit/group-advantages.ts';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';

/** The vectors' inputs and outputs, by file. */
interface Cases {
  readonly grpo_advantages: { readonly input: { readonly rewards: readonly number[] }; readonly output: readonly number[] };
  readonly grpo_update: { readonly input: Update; readonly output: Updated };
  readonly grpo_k3: { readonly input: { readonly old: readonly number[]; readonly new: readonly number[] }; readonly output: number };
}

function vectors<N extends keyof Cases>(name: N): readonly Cases[N][] {
  const path = new URL(`../../golden/grpo-000/${name}.json`, import.meta.url);
  return (JSON.parse(readFileSync(path, 'utf8')) as { cases: Cases[N][] }).cases;
}

interface Update {
  readonly trajectories: readonly { readonly old: readonly number[]; readonly new: readonly number[]; readonly advantage: number }[];
  readonly clip_epsilon: number;
  readonly beta: number;
}

interface Updated {
  readonly loss: number;
  readonly kl_div: number;
  readonly gradient: readonly (readonly number[] | null)[];
}

/** The preset with these values of the two keys that the vectors vary. */
function preset({ clip_epsilon: clip, beta }: Pick<Update, 'clip_epsilon' | 'beta'> = { clip_epsilon: 0.2, beta: 0.1 }) {
  const table = { algorithm: { loss: { clip_low: clip, clip_high: clip }, kl: { coefficient: beta } }, policy: { base_url: 'http://h/v1' } };
  return resolveTrainingConfig([presetLayer(presetNamed('grpo-000', 'grpo-000')), { source: 'vector', table }]);
}

describe('the preset grpo-000', () => {
  it('has the defaults of the specification', () => {
    const parsed = parseConfig({});
    if (!parsed.ok) throw new Error(parsed.problem);
    const { config } = parsed;
    const { wire } = resolveTrainingConfig([
      presetLayer(presetNamed('grpo-000', 'grpo-000')),
      { source: 'test', table: { policy: { base_url: 'http://h/v1' } } },
    ]);
    expect(wire).toMatchObject({
      steps: config.num_epochs * 30,
      model: { path: config.model_name_or_path },
      rollouts: { rollouts_per_example: config.group_size, examples_per_step: config.batch_size },
      algorithm: {
        epochs: config.update_times,
        loss: { clip_low: config.clip_epsilon, clip_high: config.clip_epsilon },
        kl: { coefficient: config.beta },
      },
      optimizer: { learning_rate: config.learning_rate, max_grad_norm: config.max_grad_norm },
    });
  });

  it('takes the advantages of the vectors', () => {
    const { advantage } = preset().config.algorithm;
    const cases = vectors('grpo_advantages');
    expect(cases.length).toBeGreaterThan(50);
    for (const { input, output } of cases)
      expect(isSame(Array.from(groupAdvantages(input.rewards, { ...advantage, singleton: 'zero' }).advantages), output)).toBe(true);
  });

  it('has the loss and the gradient of the vectors', () => {
    const cases = vectors('grpo_update');
    expect(cases.length).toBeGreaterThan(50);
    for (const { input, output } of cases) {
      const used = input.trajectories.filter((_, i) => output.gradient[i] !== null);
      const { config } = preset(input);
      const [term] = lossTerms(config, { algorithm: config.algorithm, responseTokens: 500 });
      const current = used.map((t) => t.new);
      const offsets = offsetsOf(current);
      const advantages = Float64Array.from(used.flatMap((t) => t.new.map(() => t.advantage)));
      const batch = { offsets, logProbs: flat(current), oldLogProbs: flat(used.map((t) => t.old)), advantages };
      const { loss, gradient } = term!.loss.evaluate(batch, countTokens(offsets));
      expect(isSame([loss, rowsOf(gradient, current)], [output.loss, output.gradient.filter((row) => row !== null)])).toBe(true);
    }
  });

  it('has the K3 of the vectors, against the policy that sampled', () => {
    for (const { input, output } of vectors('grpo_k3')) {
      // Without advantages, what is left of the loss is the penalty.
      const { config } = preset();
      const [term] = lossTerms(config, { algorithm: config.algorithm, responseTokens: 500 });
      const offsets = offsetsOf([input.new]);
      const advantages = new Float64Array(input.new.length);
      const batch = { offsets, logProbs: flat([input.new]), oldLogProbs: flat([input.old]), advantages };
      expect(isSame(term!.loss.evaluate(batch, countTokens(offsets)).loss, 0.1 * output)).toBe(true);
    }
    expect(preset().wire.algorithm).toMatchObject({ old_log_probs: 'sampler', kl: { against: 'old', estimator: 'k3' } });
  });
});
