import { describe, expect, it } from 'vitest';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';
import { clipNotice } from '../../../src/trainer/config/clip-notice.ts';
import { someConfig } from '../some-config.ts';

const of = (table: Record<string, unknown>, hasOwnSource = false) => clipNotice(someConfig(table), hasOwnSource);
const ONE_ENGINE = { policy: { base_url: null, embedded: {} }, backend: { kind: 'embedded' } };
const TRAINER = { old_log_probs: 'trainer' };

describe('clipNotice', () => {
  it('says that nothing can be clipped if the old log-probs are those of the only pass, for any sampler', () => {
    const notice =
      'No token can ever be clipped: with one optimiser step a batch and algorithm.old_log_probs = "trainer", every importance ratio is 1; set algorithm.minibatches or algorithm.epochs above 1, or algorithm.loss.objective = "importance_sampling", which is then the same.';
    expect(of({ algorithm: TRAINER })).toBe(notice);
    expect(of({ algorithm: { ...TRAINER, loss: { ratio: 'sequence' } } })).toBe(notice);
    expect(of({ algorithm: { ...TRAINER, correction: { level: 'token' } }, rollouts: { max_staleness: 3 } })).toBe(notice);
    expect(of({ algorithm: { ...TRAINER, loss: { use: 'nll' } }, losses: { further: { use: 'ratio' } } })).toBe(notice);
    expect(of({ algorithm: TRAINER }, true)).toBe(notice);
  });

  it.each([
    { algorithm: { ...TRAINER, minibatches: 2 } },
    { algorithm: { ...TRAINER, epochs: 2 } },
    { algorithm: TRAINER, steps: 0, sft: { data: 'rows.jsonl' } },
    { algorithm: { ...TRAINER, loss: { objective: 'cispo' } } },
    { algorithm: { ...TRAINER, loss: { objective: 'importance_sampling' } } },
    { algorithm: { ...TRAINER, loss: { use: 'rpg', args: { beta: 0.1 } } } },
  ])('says nothing where a ratio can leave 1, or nothing is clipped: %j', (table) => {
    expect(of(table)).toBeNull();
  });

  it.each([{ ratio: 'sequence' }, { clip_high: 0.28 }, { clip_low: 0.1 }, { dual_clip: 3 }])(
    'says it for a chosen clip where one engine samples and trains with the same weights: %j',
    (loss) => {
      const algorithm = { loss };
      expect(of({ ...ONE_ENGINE, algorithm })).toMatch(
        /^No token can ever be clipped: .* one engine .*, every importance ratio is 1 but for rounding; set/,
      );
      // Each of these could sample with other weights or compute other numbers.
      expect(of({ algorithm })).toBeNull();
      expect(of({ ...ONE_ENGINE, backend: {}, algorithm })).toBeNull();
      expect(of({ ...ONE_ENGINE, policy: { base_url: 'http://h/v1' }, algorithm })).toBeNull();
      expect(of({ ...ONE_ENGINE, rollouts: { max_staleness: 1 }, algorithm })).toBeNull();
      expect(of({ ...ONE_ENGINE, rollouts_file: 'theirs.jsonl', algorithm })).toBeNull();
      expect(of({ ...ONE_ENGINE, algorithm }, true)).toBeNull();
      expect(of({ ...ONE_ENGINE, algorithm: { ...algorithm, minibatches: 2 } })).toBeNull();
    },
  );

  it("says nothing about the laptop preset, whose clip is the default's", () => {
    const { config } = resolveTrainingConfig([presetLayer(presetNamed('laptop', null))]);
    expect(clipNotice(config, false)).toBeNull();
  });
});
