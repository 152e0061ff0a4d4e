/** Settings of `[algorithm.teacher]` that do not go together, or that other settings rule out. */
import { teacherTable } from '../../schemas/training-teacher-config.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { ConfigRule } from './check-config.ts';

type Teacher = NonNullable<TrainingConfigWire['algorithm']['teacher']>;

/** Some servers leave the middle part out. */
const SAMPLED = /^tinker:\/\/[^/]+\/(?!weights\/).+$/;

/** Keys that only some kinds of teacher have. */
const OF_KIND: readonly (readonly [name: keyof Teacher, kinds: readonly Teacher['kind'][]])[] = [
  ['path', ['embedded']],
  ['adapter', ['embedded']],
  ['base_url', ['server', 'tinker']],
  ['model', ['server', 'tinker']],
  ['api_key_var', ['server', 'tinker']],
];

const MAX_RETRIES = teacherTable.properties.max_retries.default;

const rule = (
  name: keyof Teacher,
  wrong: (teacher: Teacher, config: TrainingConfigWire) => boolean,
  problem: (teacher: Teacher) => string,
): ConfigRule => ({
  key: `algorithm.teacher.${name}`,
  wrong: (config) => config.algorithm.teacher !== null && wrong(config.algorithm.teacher, config),
  problem: (config) => problem(config.algorithm.teacher!),
});

export const TEACHER_RULES: readonly ConfigRule[] = [
  ...OF_KIND.map(([name, kinds]) =>
    rule(
      name,
      (teacher) => teacher[name] !== null && !kinds.includes(teacher.kind),
      (teacher) =>
        `algorithm.teacher.${name} must be left out with algorithm.teacher.kind = "${teacher.kind}": it is a setting of kind = ${kinds.map((kind) => `"${kind}"`).join(' or ')}`,
    ),
  ),
  rule(
    'model',
    ({ kind, model }) => kind === 'tinker' && model === null,
    () =>
      'algorithm.teacher.model must be set with algorithm.teacher.kind = "tinker": the service\'s name of a base, or tinker://MODEL/sampler_weights/NAME; got none',
  ),
  rule(
    'model',
    ({ kind, model }) => kind === 'tinker' && model !== null && model.startsWith('tinker://') && !SAMPLED.test(model),
    ({ model }) =>
      `algorithm.teacher.model must be weights that a service samples from, such as tinker://MODEL/sampler_weights/NAME, got ${JSON.stringify(model)}`,
  ),
  rule(
    'max_retries',
    ({ kind, max_retries: retries }) => kind === 'tinker' && retries !== MAX_RETRIES,
    () => 'algorithm.teacher.max_retries must be left out with algorithm.teacher.kind = "tinker", whose requests are repeated for five minutes',
  ),
  rule(
    'base_url',
    ({ kind, base_url: url }) => kind === 'server' && url === null,
    () => 'algorithm.teacher.base_url must be set with algorithm.teacher.kind = "server", got none',
  ),
  rule(
    'base_url',
    ({ base_url: url }) => url !== null && !/^https?:$/.test(URL.parse(url)?.protocol ?? ''),
    () => 'algorithm.teacher.base_url must begin with http:// or https://',
  ),
  rule(
    'base_url',
    ({ base_url: url }) => url !== null && (url.includes('***@') || url.includes('=***')),
    () => "algorithm.teacher.base_url lacks its credentials, which a run's files hide, so pass the URL again",
  ),
  rule(
    'privileged',
    ({ kind, privileged }) => (kind === 'self' || kind === 'start') && privileged === null,
    ({ kind }) =>
      `algorithm.teacher.privileged must be set with algorithm.teacher.kind = "${kind}": a policy that knows no more than the student has nothing to teach it; got none`,
  ),
  rule(
    'adapter',
    ({ kind, path, adapter }) => kind === 'embedded' && path === null && adapter === null,
    () => 'algorithm.teacher.path or algorithm.teacher.adapter must be set with algorithm.teacher.kind = "embedded", got neither',
  ),
  rule(
    'kind',
    ({ kind }, { rollouts }) => kind !== 'self' && kind !== 'start' && rollouts.temperature !== 1,
    ({ kind }) => `rollouts.temperature must be 1 with algorithm.teacher.kind = "${kind}", whose log-probs are those of temperature 1`,
  ),
  rule(
    'kind',
    (_, { steps }) => steps === 0,
    () => 'steps must be at least 1 with [algorithm.teacher], which trains on rollouts; got 0',
  ),
  rule(
    'with_reward',
    ({ with_reward: withReward }, { rollouts }) => !withReward && rollouts.max_refills > 0,
    () =>
      'rollouts.max_refills must be 0 with algorithm.teacher.with_reward = false, because it replaces groups with equal rewards, which the teacher trains all the same',
  ),
  rule(
    'as',
    ({ as }, { algorithm: { kl } }) => as === 'kl' && (kl.coefficient === 0 || kl.against !== 'reference'),
    () =>
      'algorithm.kl.coefficient must be above 0, and algorithm.kl.against "reference", with algorithm.teacher.as = "kl", which puts the teacher in the place of that reference',
  ),
  rule(
    'as',
    ({ as, with_reward: withReward }, { algorithm: { kl } }) => as === 'kl' && kl.placement === 'reward' && !withReward,
    () =>
      'algorithm.teacher.with_reward must be true with algorithm.kl.placement = "reward", because the penalty is subtracted from the reward; for the teacher alone set algorithm.teacher.as = "advantage"',
  ),
  rule(
    'beta',
    ({ as, beta, clamp, discount }) => as === 'kl' && (beta !== 1 || clamp !== null || discount !== 0),
    () =>
      'algorithm.teacher.beta, clamp and discount must be left out with algorithm.teacher.as = "kl", whose estimator and clamp are those of [algorithm.kl]',
  ),
];
