import { describe, expect, it } from 'vitest';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { CancelledError, PolicyError, PromptTooLongError, RetrievalError } from '../../src/core/errors.ts';
import type { Row } from '../../src/core/dataset.ts';
import type { EnvironmentLimits } from '../../src/core/environment.ts';
import { contentText, type Message } from '../../src/core/message.ts';
import { groupReward, reward, Rubric } from '../../src/core/rubric.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';
import { CountingEnv } from './counting-env.ts';

const sampling = { temperature: 1, topP: 1 };

type Limits = Partial<EnvironmentLimits>;
type Script = Partial<ScriptedOptions>;

async function play(environment: CountingEnv, client: PolicyClient, more: Partial<RunOptions<never>> & { each?: number } = {}): Promise<Rollout[]> {
  const { each = 1, ...options } = more;
  const groups = [...environment.eval].map((row) => ({ row, indices: Array.from({ length: each }, (_, i) => i) }));
  const rollouts: Rollout[] = [];
  const run = runRollouts(groups, {
    environment,
    client,
    sampling,
    maxTokens: null,
    maxConcurrent: 4,
    timeoutMs: null,
    seed: 0,
    signal: new AbortController().signal,
    ...(options as Partial<RunOptions<never>>),
  } as unknown as RunOptions<(typeof groups)[number]['row']>);
  for await (const group of run) rollouts.push(...group.rollouts);
  return rollouts;
}
const textOf = (rollout: Rollout) => rollout.segments.map((s) => s.text);

describe('runRollouts', () => {
  it('plays turns until the environment stops, masks what the environment wrote, and scores', async () => {
    const [rollout] = await play(new CountingEnv(), new ScriptedClient({ turns: ['one;', 'stop;'] }));
    expect(rollout).toMatchObject({
      rolloutId: '0/0',
      groupId: '0',
      stop: 'completed',
      error: null,
      reward: 9,
      metrics: { modelLength: 9, segments: 3 },
    });
    expect(rollout!.segments).toEqual([
      { kind: 'model', text: 'one;' },
      { kind: 'observation', text: ' more ' },
      { kind: 'model', text: 'stop;' },
    ]);
    const { tokens } = rollout!.branches[0]!;
    expect(Buffer.from(Uint8Array.from(tokens!.ids)).toString()).toBe('Count.one; more stop;');
    expect([...tokens!.mask].join('')).toBe('000000111100000011111');
    expect(rollout!.usage).toEqual({ inputTokens: 'Count.'.length + 'Count.one; more '.length, outputTokens: 9, cachedTokens: null });
  });

  it("records the rewards that the environment gives to turns, apart from the rollout's own", async () => {
    const client = () => new ScriptedClient({ turns: ['one;', 'two;', 'stop;'] });
    const [rollout] = await play(new CountingEnv({ turnRewards: { 1: 0.5, 3: -0 } }), client());
    expect(rollout!.generations.map(({ reward: own }) => own)).toEqual([0.5, undefined, 0]);
    expect(rollout).toMatchObject({ reward: 13, error: null });
    for (const [odd, shown] of [
      [NaN, 'NaN'],
      [Infinity, 'Infinity'],
      ['1', '"1" (a string)'],
    ] as const) {
      const [failed] = await play(new CountingEnv({ turnRewards: { 2: odd as number } }), client());
      expect(failed).toMatchObject({
        reward: null,
        error: { type: 'RewardError', message: `The environment's step gave turn 2 the reward ${shown}. It must be a finite number, or left out.` },
      });
    }
  });

  it('fails the rollout of an environment whose prompt, messages or observation cannot be shown, with an error of the environment', async () => {
    const odd = [{ role: 'user', content: 42 }] as unknown as readonly Message[];
    class OddPrompt extends CountingEnv {
      protected override prompt = () => odd;
    }
    class OddMessages extends CountingEnv {
      protected override envResponse = async () => ({ messages: odd });
    }
    class OddText extends CountingEnv {
      protected override envResponse = async () => ({ observation: 42 as unknown as string });
    }
    class OddKeep extends CountingEnv {
      protected override keep = (): number => (undefined as unknown as string).length;
    }
    const client = () => new ScriptedClient({ kind: 'chat', turns: ['one;'] });
    const options = { turnFormat: 'chat' } as const;
    const of = async (environment: CountingEnv) => (await play(environment, client()))[0]!.error;
    const problem = 'must be a string or a list of parts, got 42';
    const type = 'EnvironmentError';
    expect(await of(new OddPrompt(options))).toMatchObject({
      type,
      message: expect.stringContaining(`prompt[0].content ${problem}`),
      phase: 'setup',
    });
    expect(await of(new OddMessages(options))).toMatchObject({ type, message: expect.stringContaining(`messages[0].content ${problem}`) });
    expect(await of(new OddText(options))).toMatchObject({ type, message: expect.stringContaining('an observation that is not text: 42') });
    expect(await of(new OddKeep(options))).toMatchObject({ type, source: 'environment' });
  });

  it('records a rollout whose row, made late, has a prompt that cannot be shown', async () => {
    const environment = new CountingEnv();
    const row = { exampleId: 7, prompt: [{ role: 'user', content: 42 }] } as unknown as Row;
    Object.defineProperty(environment, 'eval', { value: [row] });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['stop;'] }));
    expect(rollout).toMatchObject({ prompt: [], reward: null, error: { type: 'EnvironmentError', source: 'environment' } });
  });

  it('names the class of a fault in the code of a client', async () => {
    const client = new ScriptedClient({
      turns: () => {
        throw new TypeError('content.map is not a function');
      },
    });
    const [rollout] = await play(new CountingEnv(), client);
    expect(rollout!.error).toMatchObject({ type: 'TypeError', source: 'policy', message: 'content.map is not a function' });
  });

  it('gives a chat policy the same scored text as messages', async () => {
    const seen: string[][] = [];
    const turns = ['one;', 'stop;'];
    const client = new ScriptedClient({
      kind: 'chat',
      turns: ({ messages, index }) => {
        seen.push(messages.map((m) => `${m.role}: ${contentText(m.content)}`));
        return turns[index]!;
      },
    });
    const [rollout] = await play(new CountingEnv({ turnFormat: 'chat' }), client);
    expect(textOf(rollout!)).toEqual(['one;', ' more ', 'stop;']);
    expect(rollout!.branches[0]!.tokens).toBe(null);
    expect(seen[1]).toEqual(['user: Count.', 'assistant: one;', 'user:  more ']);
  });

  it('shows rewards and readers the prompt that the policy got, where the environment changes the row’s', async () => {
    const asked: string[] = [];
    const rubric = new Rubric({ funcs: [reward(({ prompt }) => asked.push(contentText(prompt[0]!.content)), { name: 'asked' })] });
    const environment = new CountingEnv({ rubric });
    Object.assign(environment, { prompt: () => [{ role: 'system', content: 'Count in French.' }] });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['stop;'] }));
    expect(asked).toEqual(['Count in French.']);
    expect(rollout!.prompt).toEqual([{ role: 'system', content: 'Count in French.' }]);
  });

  it('stops at the last turn', async () => {
    const [rollout] = await play(new CountingEnv({ maxTurns: 2 }), new ScriptedClient({ turns: ['a;', 'b;', 'c;'] }));
    expect(rollout).toMatchObject({ stop: 'max_turns_reached', reward: 4 });
  });

  it('asks for no more tokens than the window has room for, then stops with prompt_too_long', async () => {
    const environment = new CountingEnv({ limits: { responseTokens: 10 } });
    const [rollout] = await play(environment, new ScriptedClient({ turns: () => 'abcdefghijklmnopq', maxModelLen: 30, tokenizer: 'code-points' }));
    // "Count." is 6 tokens: 10 new ones, 6 of observation, then 8 left of 30; the observation after that fills the window.
    expect(rollout!.generations.map((g) => [g.maxNewTokens, g.finish])).toEqual([
      [10, 'length'],
      [8, 'length'],
    ]);
    expect(rollout).toMatchObject({ stop: 'prompt_too_long', isTruncated: true, error: null });
    expect(rollout!.reward).not.toBe(null);
    expect(rollout!.branches[0]!.tokens!.length).toBeLessThanOrEqual(30 + ' more '.length);
  });

  it('gives a rollout no more than its budget of model tokens, observations apart', async () => {
    const environment = new CountingEnv({ maxTurns: 9, limits: { responseTokens: 6, completionTokens: 15 } });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['abc;', 'abcdefgh', 'abcdefgh', 'more'], tokenizer: 'code-points' }));
    expect(rollout!.generations.map((g) => [g.maxNewTokens, g.keptTokens, g.finish])).toEqual([
      [6, 4, 'stop'],
      [6, 6, 'length'],
      [5, 5, 'length'],
    ]);
    expect(rollout).toMatchObject({ stop: 'max_total_completion_tokens_reached', isTruncated: true, error: null });
    expect(rollout!.reward).not.toBe(null);
  });

  it('lets the environment end the episode with the last token of the budget', async () => {
    const environment = new CountingEnv({ limits: { completionTokens: 5 } });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['stop;'], tokenizer: 'code-points' }));
    expect(rollout).toMatchObject({ stop: 'completed', isTruncated: false });
  });

  it('counts the tokens that a chat server reports against the budget', async () => {
    const environment = new CountingEnv({ turnFormat: 'chat', maxTurns: 9, limits: { completionTokens: 6 } });
    const [rollout] = await play(environment, new ScriptedClient({ kind: 'chat', turns: ['one;', 'two;', 'three;'] }));
    expect(rollout!.generations.map((g) => g.maxNewTokens)).toEqual([6, 2]);
    expect(rollout).toMatchObject({ stop: 'max_total_completion_tokens_reached' });
  });

  it('keeps the head of an observation that is too long, and says so', async () => {
    const client = new ScriptedClient({ turns: ['one;', 'stop;'], tokenizer: 'code-points' });
    const [rollout] = await play(new CountingEnv({ observation: 'é'.repeat(9), limits: { observationTokens: 4 } }), client);
    expect(textOf(rollout!)).toEqual(['one;', 'éééé', 'stop;']);
    expect(rollout!.cutObservations).toBe(1);
  });

  it('lets maxTokens override the length that the environment sets', async () => {
    const client = new ScriptedClient({ turns: ['abcdefgh'], tokenizer: 'code-points' });
    const [rollout] = await play(new CountingEnv({ maxTurns: 1, limits: { responseTokens: 2 } }), client, { maxTokens: 3 });
    expect(textOf(rollout!)[0]).toBe('abc');
    expect(rollout!.generations[0]).toMatchObject({ maxNewTokens: 3, finish: 'length', keptTokens: 3 });
  });

  it('records a failure of the retriever as data: no reward, what was played is kept, the episode is disposed', async () => {
    const environment = new CountingEnv({
      onStep: () => {
        throw new RetrievalError('the index is gone');
      },
    });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['one;'] }));
    expect(rollout).toMatchObject({
      reward: null,
      stop: 'has_error',
      error: { type: 'RetrievalError', message: 'the index is gone', phase: 'environment', retryable: false },
      attempts: 1,
    });
    expect(textOf(rollout!)).toEqual(['one;']);
    expect(environment.disposed).toEqual([0]);
  });

  it('begins an episode again when it failed retryably, and counts the attempts', async () => {
    let failures = 1;
    const client = new ScriptedClient({
      turns: () => {
        if (failures-- > 0) throw new PolicyError('connection reset', { retryable: true });
        return 'stop;';
      },
    });
    const [rollout] = await play(new CountingEnv(), client);
    expect(rollout).toMatchObject({ reward: 5, attempts: 2, error: null });
  });

  it('treats a later prompt that the server finds too long as a stop, not as an error', async () => {
    const turns = ({ index }: { index: number }) => {
      if (index > 0) throw new PromptTooLongError('4097 tokens');
      return 'one;';
    };
    const [rollout] = await play(new CountingEnv(), new ScriptedClient({ turns }));
    expect(rollout).toMatchObject({ stop: 'prompt_too_long', error: null, isTruncated: true, reward: 4 });
  });

  describe('a rollout in which the policy never spoke', () => {
    const refusing = () => {
      throw new PromptTooLongError('The prompt has 4097 tokens, and the window 4096.');
    };
    it.each<[string, Limits, Script, string, RegExp]>([
      [
        'the server refuses its prompt',
        {},
        { turns: refusing },
        'prompt_too_long',
        /^The prompt has 4097 tokens, and the window 4096\. Serve .*--max-model-len/,
      ],
      [
        'it fills the window',
        {},
        { maxModelLen: 6 },
        'prompt_too_long',
        /^The prompt has 6 tokens, and the model's window 6\. Serve .*shorten the prompts/,
      ],
      ['it exceeds the environment', { contextTokens: 5 }, {}, 'prompt_too_long', /at most 5\. Raise max_prompt_length of the environment/],
      ['a turn may have no token', { responseTokens: 0 }, {}, 'prompt_too_long', /leave the policy no token\. Raise limits\.responseTokens/],
      ['the rollout may have no token', { completionTokens: 0 }, {}, 'max_total_completion_tokens_reached', /limits\.completionTokens/],
    ])('fails without a reward where %s, and is not scored', async (_, limits, script, stop, message) => {
      let scored = 0;
      const environment = new CountingEnv({ limits, rubric: new Rubric({ funcs: [reward(() => scored++, { name: 'one' })] }) });
      Object.assign(environment, { limitArguments: { contextTokens: 'max_prompt_length' } });
      const client = new ScriptedClient({ turns: () => 'one;', tokenizer: 'code-points', ...script });
      const [rollout] = await play(environment, client);
      expect(rollout).toMatchObject({
        stop,
        reward: null,
        metrics: {},
        turns: 0,
        attempts: 1,
        error: { type: 'UnplayedError', retryable: false, source: 'prompt' },
      });
      expect(rollout!.error!.message).toMatch(message);
      expect(scored).toBe(0);
    });
  });

  it('records an exception of the environment as its error', async () => {
    const environment = new CountingEnv({
      onStep: () => {
        throw new TypeError('row.answer is undefined');
      },
    });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['one;'] }));
    expect(rollout!.error).toMatchObject({ type: 'EnvironmentError', chain: 'TypeError: row.answer is undefined' });
  });

  it('records a reward that fails, and keeps the transcript', async () => {
    const rubric = new Rubric({ funcs: [reward(() => NaN, { name: 'broken' })] });
    const [rollout] = await play(new CountingEnv({ rubric }), new ScriptedClient({ turns: ['stop;'] }));
    expect(rollout).toMatchObject({ reward: null, stop: 'has_error', error: { type: 'RewardError', phase: 'scoring' } });
    expect(textOf(rollout!)).toEqual(['stop;']);
  });

  it('ends a rollout at its deadline with a TimeoutError', async () => {
    const environment = new CountingEnv({
      onStep: (_kept, _row, signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    });
    const [rollout] = await play(environment, new ScriptedClient({ turns: ['one;'] }), { timeoutMs: 20 });
    expect(rollout).toMatchObject({ stop: 'timeout_reached', reward: null, error: { type: 'TimeoutError' } });
  });

  it('plays no more than maxConcurrent episodes at once, and at least that many', async () => {
    let active = 0;
    let peak = 0;
    const environment = new CountingEnv({
      rows: 20,
      onStep: async () => {
        peak = Math.max(peak, ++active);
        await new Promise((resolve) => setImmediate(resolve));
        active -= 1;
      },
    });
    const rollouts = await play(environment, new ScriptedClient({ turns: ['stop;'] }), { maxConcurrent: 3 });
    expect(rollouts.length).toBe(20);
    expect(peak).toBe(3);
  });

  it('scores a group together once all of it is played; failed members stay out of it', async () => {
    const best = groupReward(
      (contexts) => contexts.map((c) => (c.modelText.length === Math.max(...contexts.map((d) => d.modelText.length)) ? 1 : 0)),
      {
        name: 'longest',
      },
    );
    const client = new ScriptedClient({
      turns: ({ key }) => {
        if (key === '0/1') throw new PolicyError('refused');
        return key === '0/2' ? 'stop a long story;' : 'stop;';
      },
    });
    const rollouts = await play(new CountingEnv({ rubric: new Rubric({ funcs: [best] }) }), client, { each: 3 });
    const rewards = Object.fromEntries(rollouts.map((r) => [r.rolloutId, r.reward]));
    expect(rewards).toEqual({ '0/0': 0, '0/1': null, '0/2': 1 });
  });

  it('throws when cancelled, after yielding what had finished, and disposes every episode', async () => {
    const stop = new AbortController();
    const environment = new CountingEnv({
      rows: 6,
      onStep: (_kept, row, signal) =>
        row.exampleId === 0 ? undefined : new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    });
    const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
    const seen: string[] = [];
    const run = async () => {
      const client = new ScriptedClient({ turns: ['stop;'] });
      const options = { environment, client, sampling, maxTokens: null, maxConcurrent: 2, timeoutMs: null, seed: 0, signal: stop.signal };
      for await (const { rollouts } of runRollouts(groups, options)) {
        seen.push(...rollouts.map(({ rolloutId }) => rolloutId));
        stop.abort();
      }
    };
    await expect(run()).rejects.toThrow(CancelledError);
    expect(seen).toEqual(['0/0']);
    expect(environment.disposed).toContain(0);
    expect(environment.disposed.length).toBeLessThanOrEqual(3);
  });

  it('stops playing when its reader stops reading', async () => {
    const environment = new CountingEnv({ rows: 100 });
    const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
    const client = new ScriptedClient({ turns: ['stop;'] });
    const { signal } = new AbortController();
    const options = { environment, client, sampling, maxTokens: null, maxConcurrent: 2, timeoutMs: null, seed: 0, signal };
    for await (const _ of runRollouts(groups, options)) break;
    expect(environment.disposed.length).toBeLessThan(100);
  });
});
