import { describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { difference, isBaseNeeded, probeFault, probeHint, servedLogProbs, tellingTokens } from '../../../src/trainer/publisher/log-prob-probe.ts';
import { LoraReplica } from '../../../src/trainer/publisher/lora-routes.ts';
import { loraServer } from '../../loopback/lora-server.ts';

const probe = { ids: Int32Array.of(5, 6, 7, 8), targets: Int32Array.of(1, 3), logProbs: Float32Array.of(-1, -2), tolerance: 0.1 };

describe('probeFault', () => {
  it('finds nothing wrong with a good probe', () => {
    expect(probeFault(probe)).toBeNull();
  });

  const bad = {
    'no targets': [{ targets: new Int32Array(), logProbs: new Float32Array() }, /at least one target/],
    'too few log-probs': [{ logProbs: Float32Array.of(-1) }, /has 1 log-probs for 2 targets/],
    'the first token': [{ targets: Int32Array.of(0, 3) }, /from 1 to at most 3, got 0/],
    'a token beyond the end': [{ targets: Int32Array.of(1, 4) }, /got 4/],
    'targets out of order': [{ targets: Int32Array.of(3, 1) }, /must ascend/],
    'a NaN': [{ logProbs: Float32Array.of(-1, NaN) }, /gradient backend returned log-prob NaN for target 3/],
    'a positive log-prob': [{ logProbs: Float32Array.of(0.5, -1) }, /log-prob 0\.5 /],
    'log-probs of the base for other tokens': [{ baseLogProbs: Float32Array.of(-1) }, /has 1 log-probs of the base for 2 targets/],
    'no tolerance': [{ tolerance: 0 }, /tolerance must be above 0/],
  } as const;
  for (const [what, [change, message]] of Object.entries(bad)) {
    it(`refuses ${what}`, () => {
      expect(probeFault({ ...probe, ...change })).toMatch(message);
    });
  }
});

describe('tellingTokens', () => {
  const base = Float32Array.from({ length: 100 }, () => -1);

  it('takes the sixteen that the adapter moves most, in either direction, and sixteen spread over the rest', () => {
    const moved = Array.from({ length: 16 }, (_, i) => 30 + 3 * i);
    const logProbs = base.map((value, i) => (moved.includes(i) ? value + (i % 2 === 0 ? 0.4 : -0.3) : value)).with(1, -1.001);
    const chosen = tellingTokens(logProbs, base);
    expect(chosen).toHaveLength(32);
    expect(chosen).toEqual(expect.arrayContaining(moved));
    const others = chosen.filter((i) => !moved.includes(i));
    expect([others[0], others.at(-1)]).toEqual([0, 99]);
    expect(chosen).toEqual(chosen.toSorted((a, b) => a - b));
  });

  it('takes all of a short text, and an even spread after the first where nothing moves', () => {
    expect(tellingTokens([-1, -2, -3], [-1, -1, -1])).toEqual([0, 1, 2]);
    const chosen = tellingTokens(base, base);
    expect(chosen.slice(0, 17)).toEqual(Array.from({ length: 17 }, (_, i) => i));
    expect([chosen.length, chosen.at(-1)]).toEqual([32, 99]);
  });
});

describe('isBaseNeeded', () => {
  const moved = (by: number) => ({ ...probe, logProbs: Float32Array.of(-1 - by, -2), baseLogProbs: Float32Array.of(-1, -2) });

  it('holds where the base itself would pass, though the adapter moves a token', () => {
    expect(isBaseNeeded(moved(0.1), [0, 1])).toBe(true);
    expect(isBaseNeeded(moved(0.003), [0, 1])).toBe(true);
  });

  it('does not hold where the base would not pass, where nothing is to be expected of these tokens, and where the base is not known', () => {
    expect(isBaseNeeded(moved(0.5), [0, 1])).toBe(false);
    expect(isBaseNeeded(moved(0.001), [0, 1])).toBe(false);
    expect(isBaseNeeded(moved(0.1), [1])).toBe(false);
    expect(isBaseNeeded(probe, [0, 1])).toBe(false);
  });
});

describe('probeHint', () => {
  const base = [-1, -2, -3];
  const moved = [-1.5, -2.5, -3.5];
  const elsewhere = [-0.5, -1, -1.5];

  it('says that the side that agrees with the base does not apply its adapter', () => {
    expect(probeHint(base, moved, base, 0.01)).toMatch(/server returns the base's log-probs/);
    expect(probeHint(moved, base, base, 0.01)).toMatch(/trainer's log-probs equal the base's/);
    expect(probeHint(moved, elsewhere, base, 0.01)).toMatch(/the adapter is applied \(it moves the server's log-probs by 0.500 nats/);
    expect(probeHint([0, 0, 0], moved, [0, 0, 0], 0.01)).toMatch(/--logprobs-mode processed_logprobs/);
    expect(probeHint(base, [-1.001, -2.001, -3.001], base, 0.01)).toMatch(/hardly changes the base/);
  });
});

describe('servedLogProbs', () => {
  const signal = new AbortController().signal;
  const ids = Int32Array.from({ length: 100 }, (_, i) => i + 10);
  const long = { ids, targets: Int32Array.from({ length: 99 }, (_, i) => i + 1), logProbs: new Float32Array(99), tolerance: 1 };
  const open = (url: string) => new LoraReplica({ baseUrl: url, maxRetries: 0, timeoutMs: 10_000, random: Random.fromSeed(0) });
  const ask = async (url: string, judgement: 'forced' | 'prompt') => {
    const replica = open(url);
    const served = await servedLogProbs(replica, long, { model: 'nano-base', judgement, signal });
    await replica.close();
    return served;
  };

  it('asks for the first, the last and some between, and gets the same both ways', async () => {
    await using server = await loraServer();
    const forced = await ask(server.url, 'forced');
    expect([forced.chosen.length, forced.chosen[0], forced.chosen[1], forced.chosen.at(-1)]).toEqual([32, 0, 3, 98]);
    expect(await ask(server.url, 'prompt')).toEqual(forced);
  });

  it('asks for a whole prompt where the server does not force tokens', async () => {
    await using knowing = await loraServer();
    await using ignorant = await loraServer({ forces: false });
    expect(await ask(ignorant.url, 'forced')).toEqual(await ask(knowing.url, 'forced'));
    expect(ignorant.requests).toHaveLength(2);
  });

  it('measures mean and largest difference', () => {
    expect(difference([-1, -2], [-1.5, -2.25])).toEqual({ mean: 0.375, max: 0.5 });
  });
});
