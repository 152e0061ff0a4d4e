import { describe, expect, it } from 'vitest';
import { someConfig } from '../some-config.ts';

const EMBEDDED = { adapter: 'adapter' };
const SERVER = { kind: 'server', base_url: 'http://127.0.0.1:1/v1' };
const refused = (teacher: object, rest: object = {}) => {
  const { algorithm = {}, ...others } = rest as { algorithm?: object };
  return () => someConfig({ ...others, algorithm: { ...algorithm, teacher } });
};

describe('[algorithm.teacher]', () => {
  it('is none by default, and has what a file leaves out', () => {
    expect(someConfig().algorithm.teacher).toBeNull();
    expect(someConfig({ algorithm: { teacher: EMBEDDED } }).algorithm.teacher).toMatchObject({
      kind: 'embedded',
      as: 'advantage',
      coefficient: 1,
      beta: 1,
      discount: 0,
      clamp: null,
      withReward: false,
    });
  });

  it.each([
    [
      'another kind’s setting',
      { ...SERVER, adapter: 'adapter' },
      {},
      /algorithm\.teacher\.adapter must be left out with algorithm\.teacher\.kind = "server"/,
    ],
    ['a service without a model', { kind: 'tinker' }, {}, /algorithm\.teacher\.model must be set with algorithm\.teacher\.kind = "tinker"/],
    [
      'a state, which no service samples from',
      { kind: 'tinker', model: 'tinker://m1/weights/a' },
      {},
      /algorithm\.teacher\.model must be weights that/,
    ],
    ['retries of a service', { kind: 'tinker', model: 'a', max_retries: 5 }, {}, /algorithm\.teacher\.max_retries must be left out/],
    ['another temperature than a service has', { kind: 'tinker', model: 'a' }, { rollouts: { temperature: 0.7 } }, /rollouts\.temperature must be 1/],
    ['a server without a URL', { kind: 'server' }, {}, /algorithm\.teacher\.base_url must be set/],
    ['a URL without a scheme', { ...SERVER, base_url: 'localhost:1' }, {}, /algorithm\.teacher\.base_url must begin with http/],
    ['a URL whose password is hidden', { ...SERVER, base_url: 'http://u:***@h/v1' }, {}, /algorithm\.teacher\.base_url lacks its credentials/],
    [
      'a teacher that knows no more than the student',
      { kind: 'start' },
      {},
      /algorithm\.teacher\.privileged must be set with algorithm\.teacher\.kind = "start"/,
    ],
    ['no teacher at all', { coefficient: 2 }, {}, /algorithm\.teacher\.path or algorithm\.teacher\.adapter must be set/],
    ['another temperature than its log-probs have', EMBEDDED, { rollouts: { temperature: 0.7 } }, /rollouts\.temperature must be 1/],
    [
      'a run without rollouts',
      EMBEDDED,
      { steps: 0, sft: { data: ['rows.jsonl'], steps: 1 }, evaluation: { every: 0 } },
      /steps must be at least 1 with \[algorithm\.teacher\]/,
    ],
    [
      'refills of groups that it trains',
      EMBEDDED,
      { rollouts: { max_refills: 1 } },
      /rollouts\.max_refills must be 0 with algorithm\.teacher\.with_reward = false/,
    ],
    ['a KL term without a weight', { ...EMBEDDED, as: 'kl' }, {}, /algorithm\.kl\.coefficient must be above 0/],
    [
      'a KL term against something else',
      { ...EMBEDDED, as: 'kl' },
      { algorithm: { kl: { coefficient: 1, against: 'old' } } },
      /algorithm\.kl\.against "reference", with algorithm\.teacher\.as = "kl"/,
    ],
    [
      'a KL term in a reward that does not count',
      { ...EMBEDDED, as: 'kl' },
      { algorithm: { kl: { coefficient: 1, placement: 'reward' } } },
      /algorithm\.teacher\.with_reward must be true/,
    ],
    [
      'settings of the advantage in a KL term',
      { ...EMBEDDED, as: 'kl', clamp: 1 },
      { algorithm: { kl: { coefficient: 1 } } },
      /beta, clamp and discount must be left out/,
    ],
    ['forward KL', { ...EMBEDDED, beta: 0 }, {}, /algorithm\.teacher\.beta/],
  ] as const)('refuses %s', (_, teacher, rest, problem) => {
    expect(refused(teacher, rest)).toThrow(problem);
  });

  it('lets a row be played once where no reward is compared, and only there', () => {
    const once = { rollouts: { rollouts_per_example: 1 } };
    expect(refused(EMBEDDED, once)).not.toThrow();
    expect(refused({ ...EMBEDDED, with_reward: true }, once)).toThrow(/rollouts\.rollouts_per_example must be at least 2/);
  });
});
