import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatRoute, parseRoute, type Screen } from '../../../../web/view/route/route.ts';

const SCREENS: readonly Screen[] = ['runs', 'run', 'settings', 'rollouts', 'rollout', 'curves', 'steps', 'held-out', 'events', 'compare'];

describe('formatRoute', () => {
  it('writes an address that parseRoute reads back, whatever ids and names hold', () => {
    const value = fc.string({ unit: 'binary', minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(fc.constantFrom(...SCREENS), value, fc.array(value, { maxLength: 4 }), (screen, run, sets) => {
        const address = new URL(formatRoute(screen, { run, set: sets, none: undefined }), 'http://127.0.0.1/');
        const { screen: read, params } = parseRoute(address.hash);
        expect(read).toBe(screen);
        expect(params.text('run')).toBe(run.toWellFormed());
        expect(params.all('set')).toEqual(sets.map((set) => set.toWellFormed()));
        expect(params.text('none')).toBeUndefined();
      }),
    );
  });

  it('keeps ids of runs readable', () => {
    expect(formatRoute('rollouts', { run: 'evals/a--b/01', sort: '-metric:em' })).toBe('#/rollouts?run=evals/a--b/01&sort=-metric:em');
  });
});

describe('parseRoute', () => {
  it('takes any other fragment for the list of runs', () => {
    for (const fragment of ['', '#', '#/', '#/nonsense', '#/../x?run=1', '#main']) expect(parseRoute(fragment).screen).toBe('runs');
  });
});
