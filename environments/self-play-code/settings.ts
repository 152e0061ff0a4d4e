/** The settings of a self-play environment, with their defaults. */
import type { BonusSettings } from './bonuses.ts';
import type { BufferFilter, BufferMix } from './buffer.ts';
import type { FunctionScore } from './check-solution.ts';
import type { LengthRewardOptions } from './rewards.ts';
import type { PromptSettings } from './task-rows.ts';
import type { TaskKind } from './records.ts';

/**
 * The scheme of rewards. `accuracy`: a solution by its correctness, for evaluation. `azr`: Absolute Zero's rewards. `crsp`: correctness with the length of the
 * thought, critiques by agreement and creativity, proposals by their learnability.
 */
export type RewardScheme = 'accuracy' | 'azr' | 'crsp';

export interface SelfPlaySettings extends PromptSettings {
  /** @default code_i, code_o and code_f */
  readonly kinds: readonly TaskKind[];
  /** @default accuracy in an evaluation, azr in training */
  readonly rewards: RewardScheme;
  /** @default binary */
  readonly functionScore: FunctionScore;
  /** Earlier programs in a proposer's prompt. @default 6 with full prompts, as upstream; 0 with mini ones */
  readonly references: number;
  /** A proposal with more statements is invalid. @default null, any number, as upstream */
  readonly maxStatements: number | null;
  /** A program that was proposed before counts as unlearnable. @default false, as upstream */
  readonly novelty: boolean;
  /** The bonuses for properties of a proposal itself. @default null, none */
  readonly bonuses: BonusSettings | null;
  /** @default all */
  readonly filter: BufferFilter;
  /** @default max_new */
  readonly mix: BufferMix;
  /** Tasks of each kind and step that are replayed from the buffer. @default 0; examples_per_step without train_probes */
  readonly replay: number | null;
  /** @default 16,384 */
  readonly maxPrograms: number;
  /** The solutions that measure a proposal are trained on. @default true; upstream throws them away */
  readonly trainProbes: boolean;
  /** Proposals are trained on. @default true */
  readonly trainPropose: boolean;
  /** Critiques of each solution. @default 0; 2 with the rewards crsp */
  readonly critics: number;
  /** The creativity of a critique: the median grade of the other critics, or its own, as in the specification. @default others */
  readonly creativity: 'others' | 'self';
  /** The course of the weights of correctness and agreement over the run. @default rlsp_coupled */
  readonly schedule: 'rlsp_coupled' | 'constant';
  readonly lengthReward: Required<LengthRewardOptions>;
}

/** Words that a program must not import or read, as upstream lists them. */
export const BANNED_WORDS: readonly string[] = [
  'logging',
  'random',
  'multiprocessing',
  'pebble',
  'subprocess',
  'threading',
  'datetime',
  'time',
  'hashlib',
  'hmac',
  'bcrypt',
  'os.sys',
  'os.path',
  'sys.exit',
  'os.environ',
  'calendar',
];

export const INPUT_COUNT = { full: 10, mini: 4 } as const;

export const DEFAULT_SETTINGS: SelfPlaySettings = {
  prompt: 'full',
  banned: BANNED_WORDS,
  inputCount: INPUT_COUNT.full,
  dimensions: ['novelty', 'depth', 'diversity', 'persistence', 'rigor'],
  kinds: ['code_i', 'code_o', 'code_f'],
  rewards: 'accuracy',
  functionScore: 'binary',
  references: 6,
  maxStatements: null,
  novelty: false,
  bonuses: null,
  filter: 'all',
  mix: 'max_new',
  replay: null,
  maxPrograms: 16_384,
  trainProbes: true,
  trainPropose: true,
  critics: 0,
  grading: 'own',
  creativity: 'others',
  schedule: 'rlsp_coupled',
  lengthReward: { maxLength: 2048, penaltyThreshold: 4096 },
};
