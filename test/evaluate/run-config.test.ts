import { describe, expect, it } from 'vitest';
import { configDifference, settingChanges } from '../../src/evaluate/run-config.ts';

describe('configDifference', () => {
  it('tells a field of the request that null leaves out from one that nobody named', () => {
    const [named, unnamed] = [{ sampling_args: { stop: null } }, { sampling_args: {} }];
    expect(configDifference(unnamed, named)).toBe('sampling_args.stop was absent and is null now');
    expect(settingChanges(named, unnamed)).toEqual(['sampling_args.stop: null → absent']);
    expect(configDifference(named, { sampling_args: { stop: null } })).toBeNull();
  });

  it('names an argument of the environment once, and no place', () => {
    const of = (topk: number) => ({ env_args: { topk }, environment: { arguments: { topk } }, roles: { judge: { base_url: `http://h:${topk}` } } });
    expect(settingChanges(of(1), of(3))).toEqual(['env_args.topk: 1 → 3']);
  });

  it('takes a setting that an older run lacks for null', () => {
    expect(configDifference({ seed: 0 }, { seed: 0, shuffle_seed: null })).toBeNull();
  });
});
