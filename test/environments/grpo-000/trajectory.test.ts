import { ConfigError } from 'vf-search';
import { logProbSum, toTrajectory, type Trajectory, trajectoryFromJson } from 'vf-search/environments/grpo-000';
import { describe, expect, it } from 'vitest';
import { askedEngine, environmentWith } from './fixtures.ts';
import { playScript } from '../play-script.ts';

const tokenText = (id: number) => String.fromCodePoint(id);

async function viewOf(turns: readonly string[], result = 'r'): Promise<Trajectory> {
  const { played, score } = await playScript(environmentWith({ engine: askedEngine(() => result) }), turns, { logProb: -0.5 });
  return toTrajectory({ ...played, reward: (await score()).reward }, { tokenText, advantage: 1 });
}

const TURNS = ['<search>q</search>', '<answer>22:00</answer>'];

describe('toTrajectory', () => {
  it('skips injected tokens in the steps, and counts them in positions, text and ids', async () => {
    const view = await viewOf(TURNS);
    expect(view.query).toBe('When do quiet hours begin?');
    expect(view.generated_text).toBe('<search>q</search><information>r</information><answer>22:00</answer>');
    expect(view.token_steps.map((step) => step.token_text).join('')).toBe(TURNS.join(''));
    expect(view.token_steps.map((step) => view.full_input_ids[step.position])).toEqual(view.token_steps.map((step) => step.token_id));
    expect(view.generated_positions).toEqual(view.token_steps.map((step) => step.position));
    const prompt = view.full_input_ids.length - view.generated_text.length;
    expect(view.full_input_ids.slice(prompt).map(tokenText).join('')).toBe(view.generated_text);
    expect(view).toMatchObject({ reward: 2.5, final_answer: '22:00', advantage: 1 });
    expect(logProbSum(view)).toBeCloseTo(-0.5 * TURNS.join('').length);
  });

  it('shows a trajectory of a trainer as the rollout that it was', async () => {
    const { played, score } = await playScript(environmentWith({ engine: askedEngine(() => 'r') }), TURNS, { logProb: -0.5 });
    const { reward } = await score();
    const { ids, logProbs, mask } = played.branches[0]!.tokens!;
    const targets = Int32Array.from([...mask].flatMap((bit, at) => (bit === 1 ? [at] : [])));
    const sampled = { ids, targets, logProbs: Float64Array.from(targets, (at) => logProbs[at]!), segments: played.segments, reward };
    const query = 'When do quiet hours begin?';
    expect(toTrajectory(sampled, { query, tokenText, advantage: 1 })).toEqual(await viewOf(TURNS));
    expect(() => toTrajectory(sampled, { tokenText } as never)).toThrow(/no prompt\. Pass its query to toTrajectory\.$/);
    expect(() => toTrajectory({ ...sampled, logProbs: null }, { query, tokenText })).toThrow(/has no log-probs, so it was not sampled/);
  });

  it('is frozen through and through, and the same after JSON there and back', async () => {
    const view = await viewOf(TURNS);
    for (const part of [view, view.token_steps, view.full_input_ids, view.generated_positions, ...view.token_steps])
      expect(Object.isFrozen(part)).toBe(true);
    const back = trajectoryFromJson(JSON.parse(JSON.stringify(view)));
    expect(back).toEqual(view);
    expect(Object.isFrozen(back.token_steps[0])).toBe(true);
  });

  it('finds the final answer in the model’s own text, whatever a result spells', async () => {
    expect((await viewOf(TURNS, '<answer>no</answer>')).final_answer).toBe('22:00');
    expect((await viewOf(['<answer>a<search>q</search>', 'b</answer>'], '</answer>')).final_answer).toBe(
      'a<search>q</search><information></answer></information>b',
    );
  });
});

describe('trajectoryFromJson', () => {
  it.each([
    [null, 'it is not an object'],
    [{}, 'query is not text'],
    [{ reward: 'x' }, 'reward is neither'],
    [{ advantage: null }, 'advantage is not a number'],
    [{ full_input_ids: [0.5] }, 'full_input_ids'],
    [{ generated_positions: [] }, 'differ in number'],
    [{ token_steps: [null] }, 'step 0 does not fit'],
    [{ token_steps: [{ token_id: 9, token_text: 'x', log_prob: -1, position: 0 }] }, 'step 0 does not fit'],
  ])('refuses %j', (change, message) => {
    const whole = {
      query: 'q',
      token_steps: [{ token_id: 1, token_text: 'x', log_prob: -1, position: 0 }],
      generated_text: 'x',
      reward: 1,
      final_answer: '',
      full_input_ids: [1],
      generated_positions: [0],
      advantage: 0,
    };
    expect(trajectoryFromJson(whole)).toEqual(whole);
    const json = change === null ? null : Object.keys(change).length === 0 ? {} : { ...whole, ...change };
    expect(() => trajectoryFromJson(json)).toThrow(ConfigError);
    expect(() => trajectoryFromJson(json)).toThrow(message);
  });
});
