/** Rules of the algorithm, the optimiser, the rollouts and the supervised steps: values that are each allowed but do not go together. */
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import { isOwnCredit } from './own-credit.ts';
import { demonstrationSources } from './training-schedule.ts';
import type { ConfigRule } from './check-config.ts';

/** Values of `checkpoint.best` other than the names of metrics. */
export const BEST_KEYWORDS: readonly string[] = ['auto', 'reward', 'validation_loss', 'none'];

/** Built-in losses that read nothing of [algorithm]; a module may read all of it. */
const APART: readonly (string | undefined)[] = ['nll', 'rpg'];

/** Aggregations without a mean over sequences. */
const PER_TOKEN: readonly string[] = ['token_mean', 'sum'];

function areApart({ algorithm, losses }: TrainingConfigWire): boolean {
  return [algorithm.loss.use, ...Object.values(losses).map(({ use }) => use)].every((use) => APART.includes(use));
}

function isWithoutRows(sft: TrainingConfigWire['sft']): boolean {
  return demonstrationSources(sft).length === 0;
}

function onlyWithRatio({ algorithm }: TrainingConfigWire, key: string, value: unknown): string {
  return `${key} = ${JSON.stringify(value)} needs a loss that uses it, such as algorithm.loss.use = "ratio" or [losses.NAME] use = "ratio"; "${algorithm.loss.use}" does not, and would ignore it`;
}

export const ALGORITHM_RULES: readonly ConfigRule[] = [
  {
    key: 'algorithm.correction.level',
    wrong: ({ algorithm: { correction, old_log_probs: old } }) => correction.level !== 'none' && old === 'sampler',
    problem: ({ algorithm }) =>
      `algorithm.old_log_probs must be "trainer" with algorithm.correction.level = "${algorithm.correction.level}", because the sampler's own log-probs need no correction; got "sampler"`,
  },
  {
    key: 'algorithm.correction.level',
    wrong: ({ algorithm: { correction, loss } }) => correction.level === 'token' && loss.ratio === 'sequence',
    problem: () =>
      'algorithm.correction.level must be "sequence", "geometric" or "none" with algorithm.loss.ratio = "sequence" (one ratio per sequence), got "token"',
  },
  {
    key: 'algorithm.correction.min',
    wrong: ({ algorithm: { correction } }) => correction.min >= correction.max,
    problem: ({ algorithm: { correction } }) => `algorithm.correction.min must be below max (${correction.max}), got ${correction.min}`,
  },
  {
    key: 'rollouts.max_staleness',
    wrong: ({ rollouts, algorithm }) => rollouts.max_staleness > 0 && algorithm.old_log_probs === 'trainer' && algorithm.correction.level === 'none',
    problem: ({ rollouts }) =>
      `algorithm.old_log_probs must be "sampler", or algorithm.correction.level another than "none", with rollouts.max_staleness = ${rollouts.max_staleness}; otherwise nothing corrects for the staleness of the sampled weights; got "trainer" and "none"`,
  },
  {
    key: 'algorithm.advantage.baseline',
    wrong: ({ algorithm: { advantage } }) => advantage.baseline === 'leave_one_out' && advantage.scope !== 'group',
    problem: ({ algorithm: { advantage } }) =>
      `algorithm.advantage.baseline must be "mean" with algorithm.advantage.scope = "${advantage.scope}" (leave-one-out compares the rollouts of a row), got "leave_one_out"`,
  },
  ...(['weighting', 'decay'] as const).map((name): ConfigRule => ({
    key: `algorithm.advantage.${name}`,
    wrong: ({ algorithm: { advantage } }) =>
      (advantage.scope === 'group' || advantage.scope === 'none') && advantage[name] !== (name === 'decay' ? 0 : 'sequence'),
    problem: ({ algorithm: { advantage } }) =>
      `algorithm.advantage.scope must be "role_task", "role" or "batch" with algorithm.advantage.${name} = ${JSON.stringify(advantage[name])}, got "${advantage.scope}"`,
  })),
  {
    key: 'rollouts.rollouts_per_example',
    wrong: ({ rollouts, algorithm }) =>
      rollouts.rollouts_per_example === 1 &&
      algorithm.advantage.scope === 'group' &&
      !isOwnCredit(algorithm.advantage.use) &&
      (algorithm.teacher === null || algorithm.teacher.with_reward),
    problem: () =>
      'rollouts.rollouts_per_example must be at least 2 with algorithm.advantage.scope = "group", which compares the rollouts of a row with each other; got 1. For one rollout per row, set scope = "batch" (REINFORCE++), "role_task", "role" or "none"',
  },
  {
    key: 'rollouts.max_refills',
    wrong: ({ rollouts }) => rollouts.rollouts_per_example === 1 && rollouts.max_refills > 0,
    problem: ({ rollouts }) =>
      `rollouts.max_refills must be 0 with rollouts.rollouts_per_example = 1, because it replaces groups without two different rewards, which would be all of them; got ${rollouts.max_refills}`,
  },
  {
    key: 'algorithm.kl.placement',
    wrong: ({ algorithm: { advantage, kl } }) => advantage.use === 'turns' && kl.coefficient > 0 && kl.placement === 'reward',
    problem: () =>
      'algorithm.kl.placement must be "loss" with algorithm.advantage.use = "turns", which subtracts no penalty from rewards; got "reward"',
  },
  ...(['weighting', 'decay'] as const).map((name): ConfigRule => ({
    key: `algorithm.advantage.${name}`,
    wrong: ({ algorithm: { advantage } }) => advantage.use === 'turns' && advantage[name] !== (name === 'decay' ? 0 : 'sequence'),
    problem: ({ algorithm: { advantage } }) =>
      `algorithm.advantage.${name} must be left out with algorithm.advantage.use = "turns", which does not use it; got ${JSON.stringify(advantage[name])}`,
  })),
  {
    key: 'algorithm.advantage.args',
    wrong: ({ algorithm: { advantage } }) => advantage.use === 'outcome' && Object.keys(advantage.args).length > 0,
    problem: () =>
      'algorithm.advantage.args must be left out with algorithm.advantage.use = "outcome", whose settings are the other keys of the table',
  },
  {
    key: 'algorithm.loss.args',
    wrong: ({ algorithm: { loss } }) => loss.use === 'ratio' && Object.keys(loss.args).length > 0,
    problem: () => 'algorithm.loss.args must be left out with algorithm.loss.use = "ratio", whose settings are the other keys of the table',
  },
  {
    key: 'algorithm.branch_weight',
    wrong: ({ algorithm }) => algorithm.branch_weight === 'token' && algorithm.branches !== 'all',
    problem: ({ algorithm }) =>
      `algorithm.branch_weight must be left out with algorithm.branches = "${algorithm.branches}", which keeps one branch of each rollout; got "token"`,
  },
  {
    key: 'algorithm.branch_weight',
    wrong: ({ algorithm: { branch_weight: weight, loss }, losses }) =>
      weight === 'token' && loss.use === 'ratio' && PER_TOKEN.includes(loss.aggregation) && Object.keys(losses).length === 0,
    problem: ({ algorithm: { loss } }) =>
      `algorithm.branch_weight must be left out with algorithm.loss.aggregation = "${loss.aggregation}", under which every token has the same weight, however it is cut into branches; got "token"`,
  },
  {
    key: 'algorithm.kl.coefficient',
    wrong: (config) => areApart(config) && config.algorithm.kl.coefficient > 0 && config.algorithm.kl.placement === 'loss',
    problem: (config) => onlyWithRatio(config, 'algorithm.kl.coefficient', config.algorithm.kl.coefficient),
  },
  {
    key: 'algorithm.entropy_coefficient',
    wrong: (config) => areApart(config) && config.algorithm.entropy_coefficient > 0,
    problem: (config) => onlyWithRatio(config, 'algorithm.entropy_coefficient', config.algorithm.entropy_coefficient),
  },
  {
    key: 'algorithm.correction.level',
    wrong: (config) => areApart(config) && config.algorithm.correction.level !== 'none',
    problem: (config) => onlyWithRatio(config, 'algorithm.correction.level', config.algorithm.correction.level),
  },
  {
    key: 'algorithm.loss.ratio',
    wrong: (config) => areApart(config) && config.algorithm.loss.ratio === 'sequence',
    problem: (config) => `${onlyWithRatio(config, 'algorithm.loss.ratio', 'sequence')}; rpg has a ratio in algorithm.loss.args`,
  },
  {
    key: 'steps',
    wrong: ({ steps, sft }) => steps === 0 && isWithoutRows(sft),
    problem: () => 'steps must be at least 1 without supervised steps (set sft.data to take some), got 0',
  },
  {
    key: 'sft.mix_weight',
    wrong: ({ sft }) => sft.mix_weight > 0 && isWithoutRows(sft),
    problem: ({ sft }) => `sft.data must be set with sft.mix_weight = ${sft.mix_weight}, got none`,
  },
  ...(['steps', 'held_out', 'validation'] as const).map((name): ConfigRule => ({
    key: `sft.${name}`,
    wrong: ({ sft }) => isWithoutRows(sft) && sft[name] !== null && sft[name] !== 0,
    problem: ({ sft }) => `sft.data must be set with sft.${name} = ${JSON.stringify(sft[name])}, got none`,
  })),
  {
    key: 'losses',
    wrong: ({ sft, losses }) => isWithoutRows(sft) && Object.values(losses).some(({ on }) => on === 'demonstrations'),
    problem: ({ losses }) =>
      `sft.data must be set with losses.${Object.keys(losses).find((name) => losses[name]?.on === 'demonstrations')}.on = "demonstrations", whose rows it names; got none`,
  },
  {
    key: 'sft.problems',
    wrong: ({ sft }) => sft.problems !== null && sft.steps === null,
    problem: () => 'sft.steps must be set with sft.problems, whose rows are known only when the run begins; got none',
  },
  {
    key: 'sft.held_out',
    wrong: ({ sft }) => sft.held_out >= 1 && !Number.isInteger(sft.held_out),
    problem: ({ sft }) => `sft.held_out must be a share below 1 or a whole number of rows, got ${sft.held_out}`,
  },
  {
    key: 'sft.held_out',
    wrong: ({ sft }) => sft.held_out > 0 && sft.validation !== null,
    problem: () => 'Only one of sft.held_out and sft.validation may be set, got both; keep one',
  },
  {
    key: 'rollouts_file',
    wrong: ({ steps, rollouts_file: file }) => steps === 0 && file !== null,
    problem: () =>
      'rollouts_file needs steps on rollouts, but steps is 0, as with --sft of vf-train; to take both kinds, name the rows by the key sft.data alone',
  },
  {
    key: 'source',
    wrong: ({ source, rollouts_file: file }) => source !== null && file !== null,
    problem: () => 'Only one of source and rollouts_file may be set, got both; keep one',
  },
  {
    key: 'rollouts_file',
    wrong: ({ rollouts, rollouts_file: file }) => file !== null && (rollouts.max_refills > 0 || rollouts.max_staleness > 0),
    problem: () => 'rollouts.max_refills and rollouts.max_staleness must be 0 with rollouts_file, because nothing is sampled',
  },
  {
    key: 'policy.launch.sleep',
    wrong: ({ rollouts, policy }) => policy.launch?.sleep === true && rollouts.max_staleness > 0,
    problem: ({ rollouts }) =>
      `rollouts.max_staleness must be 0 with policy.launch.sleep = true, because vLLM cannot sample while it sleeps; got ${rollouts.max_staleness}`,
  },
  {
    key: 'policy.launch.sleep',
    wrong: ({ policy, backend }) => policy.launch?.sleep === true && backend.kind === 'embedded',
    problem: () => 'backend.kind must be "torch" with policy.launch.sleep = true, because the embedded engine trains on the CPU; got "embedded"',
  },
  {
    key: 'algorithm.loss.dual_clip',
    wrong: ({ algorithm: { loss } }) => loss.dual_clip !== null && loss.objective !== 'clip',
    problem: ({ algorithm: { loss } }) =>
      `algorithm.loss.objective must be "clip" with algorithm.loss.dual_clip = ${loss.dual_clip}, got "${loss.objective}"`,
  },
  {
    key: 'algorithm.loss.dual_clip',
    wrong: ({ algorithm: { loss } }) => loss.dual_clip !== null && loss.dual_clip <= 1 + loss.clip_high,
    problem: ({ algorithm: { loss } }) =>
      `algorithm.loss.dual_clip must be above 1 + clip_high (${1 + loss.clip_high}), because it bounds ratios beyond the clip; got ${loss.dual_clip}`,
  },
  {
    key: 'algorithm.loss.ratio_min',
    wrong: ({ algorithm: { loss } }) => loss.ratio_min >= loss.ratio_max,
    problem: ({ algorithm: { loss } }) => `algorithm.loss.ratio_min must be below ratio_max (${loss.ratio_max}), got ${loss.ratio_min}`,
  },
  {
    key: 'algorithm.loss.ratio',
    wrong: ({ algorithm: { loss } }) => loss.ratio === 'sequence' && loss.objective === 'cispo',
    problem: () => 'algorithm.loss.ratio must be "token" with objective = "cispo" (its weights are per token), got "sequence"',
  },
  {
    key: 'algorithm.loss.max_tokens',
    wrong: ({ algorithm: { loss } }) => loss.max_tokens !== null && loss.aggregation !== 'constant',
    problem: ({ algorithm: { loss } }) =>
      `algorithm.loss.aggregation must be "constant" with algorithm.loss.max_tokens = ${loss.max_tokens} (only "constant" uses it), got "${loss.aggregation}"`,
  },
  {
    key: 'algorithm.kl.placement',
    wrong: ({ algorithm: { kl } }) => kl.coefficient > 0 && kl.placement === 'reward' && kl.against === 'old',
    problem: () =>
      'algorithm.kl.against must be "reference" with placement = "reward", because the KL of the sampling policy to itself is 0; got "old"',
  },
  {
    key: 'algorithm.kl.against',
    wrong: ({ algorithm: { kl, old_log_probs: old, minibatches, epochs } }) =>
      kl.coefficient > 0 && kl.placement === 'loss' && kl.against === 'old' && old === 'trainer' && minibatches * epochs === 1,
    problem: () =>
      'algorithm.minibatches or algorithm.epochs must be above 1 with algorithm.kl.against = "old" and old_log_probs = "trainer", because the KL of the only update to its own start is 0; got 1 and 1',
  },
  {
    key: 'algorithm.minibatches',
    wrong: ({ algorithm, rollouts }) => algorithm.minibatches > rollouts.examples_per_step,
    problem: ({ algorithm, rollouts }) =>
      `algorithm.minibatches must be at most rollouts.examples_per_step (${rollouts.examples_per_step}), because groups are never split; got ${algorithm.minibatches}`,
  },
  {
    key: 'optimizer.warmup_steps',
    wrong: ({ optimizer, steps }) => steps > 0 && optimizer.warmup_steps > steps,
    problem: ({ optimizer, steps }) => `optimizer.warmup_steps must be at most steps (${steps}), got ${optimizer.warmup_steps}`,
  },
  {
    key: 'optimizer.min_learning_rate',
    wrong: ({ optimizer }) => optimizer.min_learning_rate > optimizer.learning_rate,
    problem: ({ optimizer }) =>
      `optimizer.min_learning_rate must be at most learning_rate (${optimizer.learning_rate}), got ${optimizer.min_learning_rate}`,
  },
  {
    key: 'checkpoint.best',
    wrong: ({ checkpoint, evaluation }) => !BEST_KEYWORDS.includes(checkpoint.best) && evaluation.every === 0,
    problem: ({ checkpoint: { best } }) =>
      `checkpoint.best must be ${BEST_KEYWORDS.join(', ')}, or a metric of the evaluation, which evaluation.every = 0 turns off; got "${best}"`,
  },
  {
    key: 'checkpoint.greater_is_better',
    wrong: ({ checkpoint }) => !checkpoint.greater_is_better && BEST_KEYWORDS.includes(checkpoint.best),
    problem: ({ checkpoint: { best } }) =>
      `checkpoint.greater_is_better is for a metric that checkpoint.best names, such as checkpoint.best = "em"; leave it out with "${best}"`,
  },
  {
    key: 'evaluation.examples',
    wrong: ({ evaluation }) => evaluation.every > 0 && evaluation.examples === 0,
    problem: () => 'evaluation.examples must be -1 (all rows) or at least 1, got 0; evaluation.every = 0 turns evaluation off',
  },
];
