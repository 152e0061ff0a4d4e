/** A small environment for tests of the loop: the model counts up, the environment says `more` until it reads `stop`. */
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { EnvironmentLimits, EpisodeOptions, StepContext, TokenConventions } from '../../src/core/environment.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { metric, reward, Rubric } from '../../src/core/rubric.ts';

interface CountingOptions {
  readonly rows?: number;
  readonly maxTurns?: number;
  readonly limits?: Partial<EnvironmentLimits>;
  readonly turnFormat?: 'continuation' | 'chat';
  readonly rubric?: Rubric;
  readonly observation?: string;
  readonly tokens?: TokenConventions;
  readonly prefill?: string;
  readonly traces?: boolean;
  /** Rewards of the turns, by their number from 1. */
  readonly turnRewards?: Readonly<Record<number, number>>;
  /** Called at the start of an episode, to fail. */
  readonly onStart?: () => void;
  /** Called in place of answering, to fail or to wait. */
  readonly onStep?: (kept: string, row: Row, signal: AbortSignal) => Promise<void> | void;
}

interface CountingState extends EpisodeState {
  row: Row;
}

export class CountingEnv extends MultiTurnEnv<Row, CountingState> {
  readonly disposed: (string | number)[] = [];
  readonly #options: CountingOptions;

  constructor(options: CountingOptions = {}) {
    const rows = Array.from({ length: options.rows ?? 1 }, (_, exampleId) => ({ exampleId, prompt: [{ role: 'user' as const, content: 'Count.' }] }));
    const modelLength = ({ modelText }: { modelText: string }) => modelText.length;
    super({
      id: 'counting',
      train: new Dataset('counting', rows),
      eval: new Dataset('counting', rows),
      rubric: options.rubric ?? new Rubric({ funcs: [reward(modelLength), metric(({ segments }) => segments.length, { name: 'segments' })] }),
      maxTurns: options.maxTurns ?? 5,
      turnFormat: options.turnFormat ?? 'continuation',
      stop: [';'],
      ...(options.tokens ? { tokens: options.tokens } : {}),
      ...(options.prefill === undefined ? {} : { prefill: options.prefill }),
      ...(options.limits ? { limits: options.limits } : {}),
      ...(options.traces === undefined ? {} : { traces: options.traces }),
    });
    this.#options = options;
  }

  protected setupState(row: Row, _options: EpisodeOptions): CountingState {
    this.#options.onStart?.();
    return { turns: 0, row };
  }

  protected override keep(sampled: string): number {
    const end = sampled.indexOf(';');
    return end === -1 ? sampled.length : end + 1;
  }

  protected async envResponse(kept: string, state: CountingState, { signal }: StepContext): Promise<EnvResponse> {
    await this.#options.onStep?.(kept, state.row, signal);
    const turnReward = this.#options.turnRewards?.[state.turns];
    const rewarded = turnReward === undefined ? {} : { reward: turnReward };
    return kept.includes('stop') ? { ...rewarded, done: true } : { ...rewarded, observation: this.#options.observation ?? ' more ' };
  }

  protected override async cleanup(state: CountingState): Promise<void> {
    this.disposed.push(state.row.exampleId);
  }
}
