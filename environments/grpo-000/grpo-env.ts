/**
 * The specification's generation inside one assistant message: a generation of the policy ends at `</search>` or `</answer>`, and the result of a search is injected
 * right behind its tag. Rows and engine are passed in; `loadEnvironment` loads them.
 */
import {
  CancelledError,
  ConfigError,
  Dataset,
  EnvironmentError,
  type EnvResponse,
  type EpisodeOptions,
  MultiTurnEnv,
  RetrievalError,
  type StepContext,
  VfError,
} from 'vf-search';
import { type Episode, thrownText } from 'vf-search/environment-kit';
import { strip } from 'vf-search/metrics/python-text';
import { parseConfig, type SearchR1Config } from './config.ts';
import { type PromptStyle, promptFor } from './prompt.ts';
import { cutLength, informationBlock, isThinking, searchQuery, STOPS } from './protocol.ts';
import { type GrpoRow, grpoRubric, type GrpoRubricOptions } from './rubric.ts';
import type { SearchEngine } from './search-engine.ts';
import type { GrpoState } from './state.ts';

/** A question with its answers; further fields are kept in the row's `info`. */
export interface GrpoQuestion {
  readonly id: string;
  readonly question: string;
  readonly golden_answers: readonly string[];
  readonly [field: string]: unknown;
}

export interface GrpoEnvOptions {
  /** The rows for evaluation. */
  readonly rows: readonly GrpoQuestion[];
  /** The rows for training. @default none: reading `train` throws */
  readonly trainRows?: readonly GrpoQuestion[];
  /** Closed together with the environment. */
  readonly engine: SearchEngine;
  /** Rewards, `max_tokens` and `strict`. @default the specification's: 500 tokens; 0.5 or -1; 2, 1, 0.5 or 0; strict */
  readonly config?: Partial<SearchR1Config>;
  /** The effect of a failed search: `throw` fails the rollout, `empty` injects an empty block and counts it. @default 'throw' */
  readonly onFailure?: 'throw' | 'empty';
  /** `count` or `reject`: whether a rollout with such a block is scored. @default 'count' */
  readonly failedSearches?: GrpoRubricOptions['failedSearches'];
  /** @default 'document' */
  readonly prompt?: PromptStyle;
  /** Tokens kept of each injected block, from its beginning. @default all */
  readonly observationTokens?: number;
  /** Name of the data set. @default 'grpo-000' */
  readonly name?: string;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

/** The environment grpo-000; `loadEnvironment` builds it from arguments. Throws ConfigError for a config that `parseConfig` refuses. */
export class GrpoEnv extends MultiTurnEnv<GrpoRow, GrpoState> {
  readonly limitArguments = { responseTokens: 'max_tokens', completionTokens: 'max_tokens', observationTokens: 'max_obs_length' };
  readonly #engine: SearchEngine;
  readonly #onFailure: 'throw' | 'empty';

  constructor(options: GrpoEnvOptions) {
    const { name = 'grpo-000', prompt = 'document', failedSearches, notices, provenance, trainRows } = options;
    const config = completed(options.config ?? {});
    const toRows = (questions: readonly GrpoQuestion[]) =>
      new Dataset(
        name,
        questions.map((question) => toRow(question, prompt)),
      );
    super({
      id: 'grpo-000',
      eval: toRows(options.rows),
      ...(trainRows ? { train: toRows(trainRows) } : {}),
      rubric: grpoRubric({
        format: { strict: config.strict, reward: config.format_reward, penalty: config.format_penalty },
        answer: { exact: config.exact_match_bonus, similar: config.answer_reward, notFound: config.not_found_reward },
        ...(failedSearches ? { failedSearches } : {}),
      }),
      // The token budget ends the episode first; this only bounds the loop if generations are empty.
      maxTurns: config.max_tokens,
      limits: { responseTokens: config.max_tokens, completionTokens: config.max_tokens, observationTokens: options.observationTokens ?? Infinity },
      turnFormat: 'continuation',
      stop: STOPS,
      ...(notices ? { notices } : {}),
      ...(provenance ? { provenance } : {}),
    });
    this.#engine = options.engine;
    this.#onFailure = options.onFailure ?? 'throw';
  }

  /** Rejects for a blank question, so that its rollout fails without a call of the policy. */
  override async start(row: GrpoRow, options: EpisodeOptions): Promise<Episode> {
    if (strip(row.info.question) === '')
      throw new EnvironmentError(`The question of row ${row.exampleId} is blank, so the policy was not asked. Fill it in or remove the row.`);
    return super.start(row, options);
  }

  protected setupState(): GrpoState {
    return { turns: 0, searches: 0, failed_searches: 0, answered: false, thinking: false };
  }

  protected override keep(sampled: string): number {
    return cutLength(sampled);
  }

  protected async envResponse(kept: string, state: GrpoState, { finish, signal }: StepContext): Promise<EnvResponse> {
    const opened = state.thinking ? `<think>${kept}` : kept;
    state.thinking = isThinking(opened);
    const [searchEnd, answerEnd] = STOPS;
    if (kept.endsWith(answerEnd)) {
      state.answered = true;
      return { done: true };
    }
    if (!kept.endsWith(searchEnd)) return { done: finish === 'length' ? 'max_total_completion_tokens_reached' : 'no_action' };
    const query = searchQuery(opened);
    // The specification ignores an unusable search: the policy goes on without a result.
    return query === null ? {} : { observation: informationBlock(await this.#search(query, state, signal)) };
  }

  async #search(query: string, state: GrpoState, signal: AbortSignal): Promise<string> {
    state.searches += 1;
    try {
      return await this.#engine.search(query, { signal });
    } catch (cause) {
      if (cause instanceof CancelledError || signal.aborted) throw cause;
      if (this.#onFailure === 'empty') {
        state.failed_searches += 1;
        return '';
      }
      if (cause instanceof VfError) throw cause;
      throw new RetrievalError(`The search engine ${this.#engine.name} failed: ${thrownText(cause)}`, { cause });
    }
  }

  override async close(): Promise<void> {
    await this.#engine.close();
  }
}

function completed(given: Partial<SearchR1Config>): SearchR1Config {
  const parsed = parseConfig(given);
  if (!parsed.ok) throw new ConfigError(`${parsed.problem}.`);
  return parsed.config;
}

function toRow({ id, ...question }: GrpoQuestion, style: PromptStyle): GrpoRow {
  const [only, ...others] = question.golden_answers;
  return {
    exampleId: id,
    prompt: promptFor(question.question, style),
    ...(only !== undefined && others.length === 0 ? { answer: only } : {}),
    info: question,
  };
}
