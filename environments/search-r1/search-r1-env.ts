/**
 * Search-R1's rollout (search_r1/llm_agent/generation.py): one assistant turn in which model text and observations alternate as raw text. Up to
 * `maxTurns` generations may search; a last one may only answer. Rows and retriever are passed in; `loadEnvironment` loads them.
 */
import { Dataset, type EnvResponse, type Passage, MultiTurnEnv, RetrievalError, type Retriever, type StepContext, VfError } from 'vf-search';
import { type EnvironmentLimits, type TokenConventions, thrownText } from 'vf-search/environment-kit';
import type { QaMetric } from 'vf-search/metrics/qa-metric-names';
import { CORRECTIVE_MESSAGE, cutResponse, observation, parseAction } from './actions.ts';
import type { FormatWeights } from './reward.ts';
import { type Question, type SearchR1Row, toEnvironmentRow } from './rows.ts';
import { type Scorer, searchR1Rubric } from './rubric.ts';
import type { SearchR1State } from './state.ts';

/** Upstream's lengths, in tokens (every script of the repository): max_response_length, max_obs_length, max_prompt_length. */
export const UPSTREAM_LIMITS: EnvironmentLimits = { responseTokens: 500, observationTokens: 500, contextTokens: 4096 };

/** Upstream decodes sampled tokens and encodes the text again, which drops the token that ends a turn. */
const UPSTREAM_TOKENS: TokenConventions = { endOfTurn: 'dropped', bos: 'model' };

export interface SearchR1Options {
  /** The rows for evaluation. */
  readonly rows: readonly (Question & { readonly id: string })[];
  /** The rows for training. @default none: reading `train` throws */
  readonly trainRows?: readonly (Question & { readonly id: string })[];
  /** Closed together with the environment. */
  readonly retriever: Retriever;
  /** Generations that may search, at least 0; one generation without a search follows. @default 2 (train_ppo.sh) */
  readonly maxTurns?: number;
  /** Passages per search, at least 1. @default 3 (every script) */
  readonly topk?: number;
  /** @default UPSTREAM_LIMITS */
  readonly limits?: Partial<EnvironmentLimits>;
  /** @default 0, 0, 0, 1: plain exact match */
  readonly weights?: FormatWeights;
  /** @default 'upstream' */
  readonly scorer?: Scorer;
  /** Metrics of the answer that the scorer reads, against the golden answers, with weight 0. @default none */
  readonly metrics?: readonly QaMetric[];
  /** Also ends a generation at `</answer>`. Cheaper, but upstream lets a later `</search>` take precedence. @default false */
  readonly stopAtAnswer?: boolean;
  /** At a full context, `stop` ends the episode and `upstream` truncates it, for evaluation only. @default 'stop' */
  readonly overlong?: 'stop' | 'upstream';
  /** @default the token that ends a turn is dropped, as in upstream; bare text begins with BOS if the model's tokenizer adds it */
  readonly tokens?: TokenConventions;
  /** Name of the data set. @default 'search-r1' */
  readonly name?: string;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

/** The Search-R1 environment; `loadEnvironment` builds it from arguments. */
export class SearchR1Env extends MultiTurnEnv<SearchR1Row, SearchR1State> {
  readonly overlong: 'stop' | 'upstream';
  readonly limitArguments = { observationTokens: 'max_obs_length' };
  readonly #retriever: Retriever;
  readonly #topk: number;
  readonly #searchTurns: number;

  constructor(options: SearchR1Options) {
    const name = options.name ?? 'search-r1';
    const searchTurns = options.maxTurns ?? 2;
    const { weights, scorer, metrics, notices, provenance } = options;
    super({
      id: 'search-r1',
      eval: new Dataset(name, options.rows.map(toEnvironmentRow)),
      ...(options.trainRows ? { train: new Dataset(name, options.trainRows.map(toEnvironmentRow)) } : {}),
      rubric: searchR1Rubric({ ...(weights ? { weights } : {}), ...(scorer ? { scorer } : {}), ...(metrics ? { metrics } : {}) }),
      maxTurns: searchTurns + 1,
      limits: { ...UPSTREAM_LIMITS, ...options.limits },
      turnFormat: 'continuation',
      tokens: options.tokens ?? UPSTREAM_TOKENS,
      stop: options.stopAtAnswer ? ['</search>', '</answer>'] : ['</search>'],
      ...(notices ? { notices } : {}),
      ...(provenance ? { provenance } : {}),
    });
    this.overlong = options.overlong ?? 'stop';
    this.#retriever = options.retriever;
    this.#topk = options.topk ?? 3;
    this.#searchTurns = searchTurns;
  }

  protected setupState(): SearchR1State {
    return { turns: 0, valid_action: 0, valid_search: 0, searches: 0, answered: false };
  }

  protected override keep(sampled: string): number {
    return cutResponse(sampled).length;
  }

  protected async envResponse(kept: string, state: SearchR1State, { signal }: StepContext): Promise<EnvResponse> {
    const { action, content } = parseAction(kept);
    if (action !== null) state.valid_action += 1;
    if (action === 'search') state.valid_search += 1;
    if (action === 'answer') {
      state.answered = true;
      return { done: true };
    }
    if (state.turns > this.#searchTurns) return {};
    if (action === null) return { observation: CORRECTIVE_MESSAGE, kind: 'corrective' };
    const passages = await this.#search(content, signal);
    state.searches += 1;
    return { observation: observation(passages) };
  }

  /** Throws on failure instead of returning no passages, so that an outage does not lower the model's score. */
  async #search(query: string, signal: AbortSignal): Promise<readonly Passage[]> {
    let lists: readonly (readonly Passage[])[];
    try {
      lists = await this.#retriever.search([query], { topk: this.#topk, signal });
    } catch (cause) {
      if (cause instanceof VfError) throw cause;
      throw new RetrievalError(`The retriever ${this.#retriever.name} failed: ${thrownText(cause)}`, { cause });
    }
    const [passages, ...rest] = lists;
    if (!passages || rest.length > 0)
      throw new RetrievalError(`The retriever ${this.#retriever.name} returned ${lists.length} lists of passages for one query. It must return one.`);
    return passages;
  }

  override async close(): Promise<void> {
    await this.#retriever.close();
  }
}
