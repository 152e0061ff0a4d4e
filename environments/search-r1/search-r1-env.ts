/**
 * Search-R1's rollout (search_r1/llm_agent/generation.py): one assistant turn in which model text and observations alternate as raw text.
 * Up to `maxTurns` generations may search; a last one may only answer. Data and retrieval are handed in; loading them is `loadEnvironment`'s.
 */
import {
  Dataset,
  type EnvironmentLimits,
  type EnvResponse,
  type Passage,
  MultiTurnEnv,
  RetrievalError,
  type Retriever,
  type StepContext,
  type TokenConventions,
  thrownText,
  VfError,
} from 'vf-search';
import { CORRECTIVE_MESSAGE, cutResponse, observation, parseAction } from './actions.ts';
import type { FormatWeights } from './reward.ts';
import { type Question, type SearchR1Row, toEnvironmentRow } from './rows.ts';
import { type Scorer, searchR1Rubric } from './rubric.ts';
import type { SearchR1State } from './state.ts';

/** Upstream's lengths, in tokens (every script of the repository): max_response_length, max_obs_length, max_prompt_length. */
export const UPSTREAM_LIMITS: EnvironmentLimits = { responseTokens: 500, observationTokens: 500, contextTokens: 4096 };

/** What upstream's tokens are like: it decodes and encodes again what was sampled, and no end of turn survives that. */
const UPSTREAM_TOKENS: TokenConventions = { endOfTurn: 'dropped', bos: 'model' };

export interface SearchR1Options {
  /** What `vf-eval` plays, and a trainer too unless `trainRows` says otherwise. */
  readonly rows: readonly (Question & { readonly id: string })[];
  readonly trainRows?: readonly (Question & { readonly id: string })[];
  /** Closed together with the environment. */
  readonly retriever: Retriever;
  /** Generations that may search, from 0 up; one search-less generation follows. @default 2 (train_ppo.sh) */
  readonly maxTurns?: number;
  /** Passages per search. @default 3 (every script) */
  readonly topk?: number;
  /** @default UPSTREAM_LIMITS */
  readonly limits?: Partial<EnvironmentLimits>;
  /** @default 0, 0, 0, 1: plain exact match */
  readonly weights?: FormatWeights;
  /** @default 'upstream' */
  readonly scorer?: Scorer;
  /** Also end a generation at `</answer>`. Cheaper; upstream lets a later `</search>` win. @default false */
  readonly stopAtAnswer?: boolean;
  /** What a full context means. @default 'stop' */
  readonly overlong?: 'stop' | 'upstream';
  /** @default the token that ends a turn is dropped, as upstream does; bare text begins with BOS where the model asks for it */
  readonly tokens?: TokenConventions;
  /** Of the data set. @default 'search-r1' */
  readonly name?: string;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

export class SearchR1Env extends MultiTurnEnv<SearchR1Row, SearchR1State> {
  readonly overlong: 'stop' | 'upstream';
  readonly limitArguments = { observationTokens: 'max_obs_length' };
  readonly #retriever: Retriever;
  readonly #topk: number;
  readonly #searchTurns: number;

  constructor(options: SearchR1Options) {
    const name = options.name ?? 'search-r1';
    const searchTurns = options.maxTurns ?? 2;
    const { weights, scorer, notices, provenance } = options;
    super({
      id: 'search-r1',
      eval: new Dataset(name, options.rows.map(toEnvironmentRow)),
      ...(options.trainRows ? { train: new Dataset(name, options.trainRows.map(toEnvironmentRow)) } : {}),
      rubric: searchR1Rubric({ ...(weights ? { weights } : {}), ...(scorer ? { scorer } : {}) }),
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

  /** A failure is thrown, never an empty list: an outage would be scored as the model's. */
  async #search(query: string, signal: AbortSignal): Promise<readonly Passage[]> {
    let lists: readonly (readonly Passage[])[];
    try {
      lists = await this.#retriever.search([query], { topk: this.#topk, signal });
    } catch (cause) {
      if (cause instanceof VfError) throw cause;
      throw new RetrievalError(`Expected passages from ${this.#retriever.name}, it failed: ${thrownText(cause)}`, { cause });
    }
    const [passages, ...rest] = lists;
    if (!passages || rest.length > 0) throw new RetrievalError(`Expected one list of passages from ${this.#retriever.name}, got ${lists.length}`);
    return passages;
  }

  override async close(): Promise<void> {
    await this.#retriever.close();
  }
}
