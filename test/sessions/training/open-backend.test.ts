import { describe, expect, it } from 'vitest';
import { assertReadsImages, worldSize } from '../../../src/sessions/training/open-backend.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import type { TrainingConfig } from '../../../src/schemas/training-config.ts';
import type { GradientBackend } from '../../../src/trainer/gradient-backend.ts';

describe('worldSize', () => {
  const meeting = { MASTER_ADDR: '10.0.0.1', MASTER_PORT: '29500' };

  it('is the number of devices without torchrun variables, and WORLD_SIZE with them', () => {
    expect(worldSize(2, {})).toBe(2);
    expect(worldSize(2, { WORLD_SIZE: '4' })).toBe(2);
    expect(worldSize(2, { ...meeting, WORLD_SIZE: '4' })).toBe(4);
    expect(worldSize(2, { ...meeting, WORLD_SIZE: '2', RANK: '0' })).toBe(2);
  });

  it.each([
    [{ ...meeting, WORLD_SIZE: '1' }, /^WORLD_SIZE must be a whole number of at least 2, .*, got "1"$/],
    [{ ...meeting, WORLD_SIZE: 'four' }, /got "four"$/],
    [{ ...meeting, WORLD_SIZE: '4', RANK: '2' }, /host of rank 0, got RANK=2; .* worker\.py --join/],
    [{ MASTER_ADDR: '10.0.0.1', WORLD_SIZE: '4' }, /^MASTER_ADDR=10\.0\.0\.1 needs MASTER_PORT/],
  ])('refuses %o', (variables, text) => {
    expect(() => worldSize(2, variables)).toThrow(ConfigError);
    expect(() => worldSize(2, variables)).toThrow(text);
  });
});

describe('assertReadsImages', () => {
  const backend = (images: boolean) => ({ capabilities: { images } }) as GradientBackend;
  const config = { model: { path: 'models/text' } } as TrainingConfig;

  it('refuses an environment that shows images over a base that reads text only, and names both', () => {
    const check = () => assertReadsImages(backend(false), { id: 'visual-rag', needs: ['images'] }, config);
    expect(check).toThrow(ConfigError);
    expect(check).toThrow(/^visual-rag shows images, but the base models\/text .* reads text only\. Set model\.path/);
  });

  it('takes images over a base that reads them, and text over any', () => {
    expect(() => assertReadsImages(backend(true), { id: 'visual-rag', needs: ['images'] }, config)).not.toThrow();
    expect(() => assertReadsImages(backend(false), { id: 'visual-rag' }, config)).not.toThrow();
  });
});
