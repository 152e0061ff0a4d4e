import { describe, expect, it } from 'vitest';
import { worldSize } from '../../../src/cli/train/open-backend.ts';
import { ConfigError } from '../../../src/core/errors.ts';

describe('worldSize', () => {
  const meeting = { MASTER_ADDR: '10.0.0.1', MASTER_PORT: '29500' };

  it('is the number of devices without torchrun variables, and WORLD_SIZE with them', () => {
    expect(worldSize(2, {})).toBe(2);
    expect(worldSize(2, { WORLD_SIZE: '4' })).toBe(2);
    expect(worldSize(2, { ...meeting, WORLD_SIZE: '4' })).toBe(4);
    expect(worldSize(2, { ...meeting, WORLD_SIZE: '2', RANK: '0' })).toBe(2);
  });

  it.each([
    [{ ...meeting, WORLD_SIZE: '1' }, /WORLD_SIZE to be a whole number of at least 2, .*; got 1$/],
    [{ ...meeting, WORLD_SIZE: 'four' }, /got four$/],
    [{ ...meeting, WORLD_SIZE: '4', RANK: '2' }, /host of rank 0, got RANK=2; .* worker\.py --join/],
    [{ MASTER_ADDR: '10.0.0.1', WORLD_SIZE: '4' }, /MASTER_PORT beside MASTER_ADDR=10\.0\.0\.1/],
  ])('refuses %o', (variables, text) => {
    expect(() => worldSize(2, variables)).toThrow(ConfigError);
    expect(() => worldSize(2, variables)).toThrow(text);
  });
});
