import { describe, expect, it } from 'vitest';
import { tokenPlaces } from '../../../src/trainer/credit/rollout-turns.ts';
import { tokenKinds } from '../../../src/trainer/credit/token-kinds.ts';
import { trajectory } from '../some-trajectories.ts';

/** Texts that the policy and, in between, others wrote, prompt first: a token for each byte. */
function spoken(...texts: readonly string[]) {
  const ids = [...Buffer.from(texts.join(''))];
  const targets: number[] = [];
  let at = 0;
  for (const [i, text] of texts.entries()) for (const _ of Buffer.from(text)) if (at++ >= 0 && i % 2 === 1) targets.push(at - 1);
  return trajectory('a/0', { ids: Int32Array.from(ids), promptLength: texts[0]!.length, targets: Int32Array.from(targets) });
}

/** Letters for kinds: one for each token. */
const kindsOf = (...texts: readonly string[]) =>
  tokenKinds(spoken(...texts), String.fromCharCode)
    .map((kind) => kind[0] ?? '.')
    .join('');

describe('tokenKinds', () => {
  it('is the tag around each token, its own text included, and nothing outside', () => {
    expect(kindsOf('Q', 'é<search>a</search>b')).toBe('..sssssssssssssssss'.concat('s.'));
  });

  it('is the innermost of several tags, and a tag that is never closed holds the rest of its turn', () => {
    expect(kindsOf('Q', '<think>x<b>y</b></think><a>z', '<obs>', 'w')).toBe('tttttttt'.concat('bbbbbbbb', 'tttttttt', 'aaaa', 'o'));
  });

  it('takes a thought that a template opens before the turn, and no tag of an environment that is not its last text', () => {
    expect(kindsOf('Q<think>\n', 'a</think>b')).toBe('tttttttttt'.slice(0, 9).concat('.'));
    expect(kindsOf('Q', 'a', '<table> of ', 'b')).toBe('..');
  });

  it('ignores a closing tag without an opening one', () => {
    expect(kindsOf('Q', '</a>b<c')).toBe('.......');
  });
});

describe('tokenPlaces', () => {
  it('says turn and places of each token, also of the tokens that are left of a masked rollout', () => {
    const whole = spoken('Q', 'ab', '-', 'cd');
    expect(tokenPlaces({ trajectory: whole, targets: whole.targets.subarray(1) })).toEqual([
      { turn: 0, position: 2, inTurn: 1 },
      { turn: 1, position: 4, inTurn: 0 },
      { turn: 1, position: 5, inTurn: 1 },
    ]);
    const row = trajectory('s/0', { reward: null, error: null, targets: Int32Array.of(1, 3) });
    expect(tokenPlaces({ trajectory: row, targets: row.targets }).map(({ turn, inTurn }) => [turn, inTurn])).toEqual([
      [0, 0],
      [0, 1],
    ]);
  });
});
