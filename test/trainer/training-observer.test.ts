import { describe, expect, it } from 'vitest';
import { joinObservers, type TrainingObserver } from '../../src/trainer/training-observer.ts';

describe('joinObservers', () => {
  it('calls every observer that has the method, in order, with what it was called with', () => {
    const calls: unknown[] = [];
    const names = ['onStart', 'onPhase', 'onRollouts', 'onFailedRollout', 'onStep', 'onEvaluation', 'onValidation', 'onEvent'] as const;
    const listener = (who: string): TrainingObserver =>
      Object.fromEntries(names.map((name) => [name, (...given: unknown[]) => calls.push([who, name, ...given])]));
    const joined = joinObservers([listener('first'), {}, listener('second')]) as Required<
      Record<(typeof names)[number], (...given: unknown[]) => void>
    >;
    for (const name of names) joined[name](`a of ${name}`, 'b');
    expect(calls).toEqual(
      names.flatMap((name) => ['first', 'second'].map((who) => [who, name, `a of ${name}`, ...(name === 'onPhase' ? ['b'] : [])])),
    );
  });
});
