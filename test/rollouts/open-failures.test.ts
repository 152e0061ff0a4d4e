import { describe, expect, it } from 'vitest';
import { OpenFailures } from '../../src/rollouts/open-failures.ts';

describe('OpenFailures', () => {
  it('are made good by a later request for the same, and not by one of the same moment, whichever of them ends first', () => {
    const failure = { error: new Error('down'), phase: 'generation' } as const;
    const failures = new OpenFailures();
    const together = failures.now();
    failures.add('a', failure);
    failures.answered('a', together);
    failures.answered('b', failures.now());
    expect(failures.all).toMatchObject([failure]);
    failures.answered('a', failures.now());
    expect(failures.all).toEqual([]);
    failures.answered('a', together);
    failures.add('a', failure);
    expect(failures.all).toMatchObject([failure]);
  });
});
