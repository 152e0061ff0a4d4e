/** The subjects of `npm run prove seeds`: for each environment its runs, its bars, and the quantities to which they apply. A further environment is a further entry. */
import { presetNamed } from '../../src/sessions/environment/presets.ts';
import { settingLines } from './preset-settings.ts';
import { worldSettings } from './train-once.ts';

/** A value of the evaluations, judged before the first step and after the last. */
export interface ProvenQuantity {
  /** Its name in metrics.jsonl. */
  readonly metric: string;
  readonly label: string;
  /** At most this before training. */
  readonly start: number;
  /** At least this after it. */
  readonly end: number;
  /** At least this after the few steps of `--quick`. */
  readonly quickEnd: number;
}

/** A further run of the laptop preset with other settings. */
export interface ProofVariant {
  readonly label: string;
  /** The differences from the laptop preset, as a sentence. */
  readonly about: string;
  /** `key=value`, for `--set`. */
  readonly settings: readonly string[];
  /** At least this held-out reward at the end. */
  readonly end: number;
}

export interface ProofWorld {
  /** A Python module of `recipes` that takes --out and --seed. */
  readonly module: string;
  /** `key=value`, for `--set`. @param folder the module's output */
  readonly settings: (folder: string) => string[];
}

export const FACT_WORLD: ProofWorld = { module: 'recipes.base.world', settings: worldSettings };

export interface SeedProof {
  readonly environment: string;
  /** The model and its world. */
  readonly setting: string;
  readonly steps: number;
  readonly quickSteps: number;
  /** Seconds on two idle cores. */
  readonly seconds: number;
  /** The first is the reward. */
  readonly quantities: readonly [ProvenQuantity, ...ProvenQuantity[]];
  readonly variants: readonly ProofVariant[];
  /** Seeds of further worlds of the same kind; judged like the bundled one. */
  readonly worlds: readonly number[];
  /** The module and the settings of a further world. */
  readonly world: ProofWorld;
  /** The held-out reward after training with negated advantages stays below this. */
  readonly controlBelow: number;
}

export const SEED_PROOFS: readonly SeedProof[] = [
  {
    environment: 'grpo-000',
    setting: 'nano-base, bundled fact world',
    steps: 15,
    quickSteps: 6,
    seconds: 40,
    quantities: [
      { metric: 'reward_mean', label: 'held-out reward', start: 1, end: 2.2, quickEnd: 1.4 },
      { metric: 'rubric/exact_match', label: 'exact match', start: 0.3, end: 0.9, quickEnd: 0.45 },
    ],
    variants: [
      {
        label: "the specification's algorithm",
        about:
          'Groups of 2, 4 updates a batch, K3 0.1 against the sampling policy, population deviation, the mean of each trajectory, gradient norm 0.5: [algorithm] of the preset grpo-000, with 32 questions a step and the learning rate 5e-4.',
        settings: [
          ...settingLines(presetNamed('grpo-000', 'grpo-000'), ['algorithm', 'optimizer.max_grad_norm', 'rollouts.rollouts_per_example']),
          // As many rollouts as the laptop run has in a step. For a LoRA of a model this small the specification's 1e-5 would take thousands of steps.
          'rollouts.examples_per_step=32',
          'optimizer.learning_rate=5e-4',
        ],
        end: 2.2,
      },
    ],
    worlds: [],
    world: FACT_WORLD,
    controlBelow: 0,
  },
  {
    environment: 'search-o1',
    setting: "nano-o1 under Search-o1's whole instruction, built-in refiner, bundled fact world",
    steps: 20,
    quickSteps: 8,
    seconds: 60,
    // The reward is the exact match of the boxed answer.
    quantities: [{ metric: 'reward_mean', label: 'held-out exact match', start: 0.3, end: 0.9, quickEnd: 0.45 }],
    variants: [],
    worlds: [7],
    world: FACT_WORLD,
    controlBelow: 0.1,
  },
];
