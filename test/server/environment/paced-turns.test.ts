import { setImmediate as nextRound } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { PacedTurns } from '../../../src/server/environment/paced-turns.ts';

it('gives turns in order, a few in each round of the event loop', async () => {
  const turns = new PacedTurns();
  const taken: number[] = [];
  const all = Array.from({ length: 20 }, async (_, i) => {
    await turns.next();
    taken.push(i);
  });
  const rounds: number[] = [];
  while (taken.length < 20) {
    await nextRound();
    rounds.push(taken.length);
  }
  await Promise.all(all);
  expect(taken).toEqual(Array.from({ length: 20 }, (_, i) => i));
  expect(new Set(rounds).size).toBeGreaterThanOrEqual(3);
  expect(rounds[0]).toBeLessThanOrEqual(8);
});

it('gives a turn that is asked for after a pause, or by a turn', async () => {
  const turns = new PacedTurns();
  const taken: string[] = [];
  await turns.next().then(() => taken.push('first'));
  await turns.next().then(() => turns.next().then(() => taken.push('by a turn')));
  await nextRound();
  await turns.next().then(() => taken.push('after a pause'));
  expect(taken).toEqual(['first', 'by a turn', 'after a pause']);
});
