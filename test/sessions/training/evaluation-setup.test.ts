import { describe, expect, it } from 'vitest';
import { evaluationSetup } from '../../../src/sessions/training/evaluation-setup.ts';
import type { TrainingConfigWire } from '../../../src/schemas/training-config.ts';

const wire = (changes: Record<string, unknown> = {}): TrainingConfigWire =>
  ({
    environment: { id: './env.ts', args: { topk: 3 } },
    roles: { judge: { model: 'gpt', base_url: 'http://127.0.0.1:1/v1' } },
    evaluation: { every: 10, examples: -1, temperature: null },
    rollouts: { temperature: 1, max_tokens: null },
    optimizer: { learning_rate: 0.001 },
    ...changes,
  }) as unknown as TrainingConfigWire;
const files = { 'environment.id': { 'env.ts': 'abc' }, 'model.path': { 'config.json': 'def' } };

describe('evaluationSetup()', () => {
  it.each([
    ['the contents of the module', wire(), { ...files, 'environment.id': { 'env.ts': 'abd' } }],
    ['an argument', wire({ environment: { id: './env.ts', args: { topk: 4 } } }), files],
    ['the judge', wire({ roles: { judge: { model: 'claude', base_url: 'http://127.0.0.1:1/v1' } } }), files],
    ['the rows', wire({ evaluation: { every: 10, examples: 20, temperature: null } }), files],
    ['the temperature of training, which evaluations share', wire({ rollouts: { temperature: 0.5, max_tokens: null } }), files],
  ])('is another number for another %s', (_, changed, inputs) => {
    expect(evaluationSetup(changed, inputs)).not.toBe(evaluationSetup(wire(), files));
  });

  it.each([
    ['the interval', wire({ evaluation: { every: 5, examples: -1, temperature: null } }), files],
    ['the learning rate', wire({ optimizer: { learning_rate: 1 } }), files],
    ['the place of the judge', wire({ roles: { judge: { model: 'gpt', base_url: 'http://127.0.0.1:2/v1' } } }), files],
    ['a file of the model', wire(), { ...files, 'model.path': { 'config.json': 'x' } }],
  ])('is the same number whatever %s', (_, changed, inputs) => {
    expect(evaluationSetup(changed, inputs)).toBe(evaluationSetup(wire(), files));
  });

  it('ignores the temperature of training where evaluations have their own', () => {
    const own = (temperature: number) =>
      wire({ rollouts: { temperature, max_tokens: null }, evaluation: { every: 10, examples: -1, temperature: 0 } });
    expect(evaluationSetup(own(0.5), files)).toBe(evaluationSetup(own(1), files));
  });
});
