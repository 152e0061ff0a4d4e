/** TRL's own losses and gradients (test/golden/producers/distillation.py), and what holds of every advantage. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DistillationConfig, distillationAdvantages } from '../../../src/trainer/losses/distillation.ts';

interface Golden {
  readonly divergence: readonly {
    readonly beta: number;
    readonly student_logits: readonly (readonly number[])[];
    readonly teacher_logits: readonly (readonly number[])[];
    readonly loss: number;
    readonly gradient: readonly (readonly number[])[];
  }[];
  readonly sampled: readonly Readonly<Record<'student_log_probs' | 'teacher_log_probs' | 'loss' | 'gradient', readonly number[]>>[];
}

const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/distillation.json'), 'utf8')) as Golden;
const PLAIN: DistillationConfig = { coefficient: 1, beta: 1, discount: 0, clamp: null };

const logSoftmax = (logits: readonly number[]) => {
  const most = Math.max(...logits);
  const total = most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return Float64Array.from(logits, (logit) => logit - total);
};
const logProb = fc.double({ min: -30, max: 0, noNaN: true });
const token = fc.record({ student: logProb, teacher: logProb });
const columns = (tokens: readonly { readonly student: number; readonly teacher: number }[]) => ({
  student: Float64Array.from(tokens, ({ student }) => student),
  teacher: Float64Array.from(tokens, ({ teacher }) => teacher),
});

describe('distillationAdvantages', () => {
  it.each(golden.sampled)("gives the gradient of TRL's loss on sampled tokens", (given) => {
    const tokens = { student: Float64Array.from(given.student_log_probs), teacher: Float64Array.from(given.teacher_log_probs) };
    const advantages = distillationAdvantages(PLAIN, tokens);
    // The loss -A log π has the gradient -A.
    for (const [t, advantage] of advantages.entries()) {
      expect(-advantage).toBeCloseTo(given.gradient[t]!, 10);
      expect(-advantage * tokens.student[t]!).toBeCloseTo(given.loss[t]!, 10);
    }
  });

  it.each(golden.divergence)('gives, in expectation over the vocabulary, the gradient of the divergence of GKD with beta $beta', (given) => {
    for (const [t, logits] of given.student_logits.entries()) {
      const tokens = { student: logSoftmax(logits), teacher: logSoftmax(given.teacher_logits[t]!) };
      const advantages = distillationAdvantages({ ...PLAIN, beta: given.beta }, tokens);
      const share = tokens.student.map(Math.exp);
      const mean = advantages.reduce((sum, advantage, v) => sum + share[v]! * advantage, 0);
      for (const [v, expected] of given.gradient[t]!.entries()) expect(-share[v]! * (advantages[v]! - mean)).toBeCloseTo(expected, 9);
    }
  });

  it('is, in expectation, the negative reverse KL that TRL gives', () => {
    for (const given of golden.divergence.filter(({ beta }) => beta === 1)) {
      const kl = given.student_logits.map((logits, t) => {
        const student = logSoftmax(logits);
        const advantages = distillationAdvantages(PLAIN, { student, teacher: logSoftmax(given.teacher_logits[t]!) });
        return -advantages.reduce((sum, advantage, v) => sum + Math.exp(student[v]!) * advantage, 0);
      });
      expect(kl.reduce((sum, value) => sum + value, 0)).toBeCloseTo(given.loss, 9);
    }
  });

  it('is positive where the teacher finds a token likelier, and negative where it finds it less likely {beta}', () => {
    const beta = fc.oneof(fc.constant(1), fc.double({ min: 0.05, max: 0.99, noNaN: true }));
    fc.assert(
      fc.property(fc.array(token), beta, (tokens, of) => {
        const told = tokens.filter(({ student, teacher }) => Math.abs(teacher - student) > 1e-6);
        const advantages = distillationAdvantages({ ...PLAIN, beta: of, coefficient: 0.5 }, columns(told));
        expect([...advantages].map(Math.sign)).toEqual(told.map(({ student, teacher }) => Math.sign(teacher - student)));
      }),
    );
  });

  it('leaves a token without a log-prob unknown, and never takes it for 0', () => {
    const tokens = { student: Float64Array.of(-1, -1, NaN, -1), teacher: Float64Array.of(-2, NaN, -1, -3) };
    expect([...distillationAdvantages(PLAIN, tokens)]).toEqual([-1, NaN, NaN, -2]);
    expect([...distillationAdvantages({ ...PLAIN, discount: 0.5 }, tokens)]).toEqual([-1 + 0.5 ** 3 * -2, NaN, NaN, -2]);
    expect([...distillationAdvantages(PLAIN, { student: Float64Array.of(-1), teacher: Float64Array.of(-Infinity) })]).toEqual([NaN]);
  });

  it('bounds the difference of each token, and counts later ones by their distance', () => {
    const tokens = { student: Float64Array.of(-1, -9, -1), teacher: Float64Array.of(-8, -1, -2) };
    expect([...distillationAdvantages({ ...PLAIN, clamp: 3 }, tokens)]).toEqual([-3, 3, -1]);
    expect([...distillationAdvantages({ ...PLAIN, clamp: 3, discount: 0.5, coefficient: 2 }, tokens)]).toEqual([2 * (-3 + 1.5 - 0.25), 5, -2]);
  });
});
