/**
 * Search-o1's loop (scripts/run_search_o1.py) for one question: reasoning, searches and a refiner's findings in the pages alternate inside one assistant message.
 * Rows and search are passed in; `loadEnvironment` opens them.
 */
import {
  Dataset,
  type EnvResponse,
  type EpisodeOptions,
  MultiTurnEnv,
  RetrievalError,
  type RoleDeclarations,
  type StepContext,
  VfError,
} from 'vf-search';
import { type EnvironmentLimits, type Model, thrownText } from 'vf-search/environment-kit';
import { extractInformation } from './extract.ts';
import { END_SEARCH_QUERY, extractQuery, LIMIT_NOTE, REPEATED_NOTE, searchResult } from './markers.ts';
import { previousReasoning } from './previous-reasoning.ts';
import { type Instruction, type ModelName, reasoningPrompt, refinementPrompt, searchLimit } from './prompt.ts';
import { type RefinementData, SENTENCE_REFINER } from './refiner.ts';
import { type Scorer, type SearchO1Metric, type SearchO1Row, searchO1Rubric } from './rubric.ts';
import type { SearchO1State } from './state.ts';
import { formatWebPages, MAX_DOC_LEN, type PageSearch, type WebPage } from './web-pages.ts';

/** A question with its answers; further fields are kept in the row's `info`. */
export interface SearchO1Question {
  readonly id: string;
  readonly question: string;
  readonly golden_answers: readonly string[];
  readonly [field: string]: unknown;
}

export interface SearchO1Options {
  /** The rows for evaluation. */
  readonly rows: readonly SearchO1Question[];
  /** The rows for training. @default none: reading `train` throws */
  readonly trainRows?: readonly SearchO1Question[];
  /** Closed together with the environment. */
  readonly search: PageSearch;
  /** @default 'singleqa' */
  readonly instruction?: Instruction;
  /** The family of models that the prompt addresses. @default null, any model but QwQ and Llama */
  readonly modelName?: ModelName | null;
  /** Searches per episode, at least 0; a query after that gets a note. @default 5 for `singleqa`, else 10 (upstream) */
  readonly maxSearchLimit?: number;
  /** Generations per episode, at least 1. @default 15 (upstream) */
  readonly maxTurn?: number;
  /** Characters of a page on either side of its snippet; twice as many from its beginning without one. @default 3000 (upstream) */
  readonly maxDocLen?: number;
  /** New tokens of the refiner per call. @default 4096 */
  readonly refineTokens?: number;
  /** Temperature of the refiner. @default 0: the same pages give the same information */
  readonly refineTemperature?: number;
  /** In tokens. @default 32768 new ones per generation (upstream), and no others */
  readonly limits?: Partial<EnvironmentLimits>;
  /** The reward. @default 'em' */
  readonly metric?: SearchO1Metric;
  /** @default 'completion' */
  readonly scorer?: Scorer;
  /** Name of the data set. @default 'search-o1' */
  readonly name?: string;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

/** Upstream's `max_turn` and `max_tokens`. */
export const MAX_TURN = 15;
export const RESPONSE_TOKENS = 32_768;
/** Less than upstream's 32,768, which few public servers allow. */
export const REFINE_TOKENS = 4096;

/** The role that reads the pages (Reason-in-Documents). */
export const REFINER_ROLES: RoleDeclarations = {
  refiner: { about: 'picks what helps out of the pages that a search found', default: 'builtin', builtin: SENTENCE_REFINER },
};

/** Data that an episode needs in addition to its counters. Not part of the state, because results would repeat the whole text. */
interface Play {
  readonly refiner: Model;
  /** Everything after the prompt. */
  output: string;
}

/** The environment search-o1; `loadEnvironment` builds it from arguments. */
export class SearchO1Env extends MultiTurnEnv<SearchO1Row, SearchO1State> {
  readonly limitArguments = { responseTokens: 'max_response_length', observationTokens: 'max_obs_length', contextTokens: 'max_prompt_length' };
  readonly #plays = new WeakMap<SearchO1State, Play>();
  readonly #search: PageSearch;
  readonly #maxSearchLimit: number;
  readonly #maxDocLen: number;
  readonly #refineTokens: number;
  readonly #refineTemperature: number;

  constructor(options: SearchO1Options) {
    const { name = 'search-o1', instruction = 'singleqa', modelName = null, trainRows, metric, scorer, notices, provenance } = options;
    const maxSearchLimit = options.maxSearchLimit ?? searchLimit(instruction);
    const toRow = ({ id, ...question }: SearchO1Question): SearchO1Row => {
      const [only, ...others] = question.golden_answers;
      return {
        exampleId: id,
        prompt: [{ role: 'user', content: reasoningPrompt(question.question, { instruction, maxSearchLimit, modelName }) }],
        ...(only !== undefined && others.length === 0 ? { answer: only } : {}),
        info: question,
      };
    };
    super({
      id: 'search-o1',
      eval: new Dataset(name, options.rows.map(toRow)),
      ...(trainRows ? { train: new Dataset(name, trainRows.map(toRow)) } : {}),
      rubric: searchO1Rubric({ instruction, ...(metric ? { metric } : {}), ...(scorer ? { scorer } : {}) }),
      maxTurns: options.maxTurn ?? MAX_TURN,
      limits: { responseTokens: RESPONSE_TOKENS, ...options.limits },
      turnFormat: 'continuation',
      stop: [END_SEARCH_QUERY],
      roles: REFINER_ROLES,
      ...(notices ? { notices } : {}),
      ...(provenance ? { provenance } : {}),
    });
    this.#search = options.search;
    this.#maxSearchLimit = maxSearchLimit;
    this.#maxDocLen = options.maxDocLen ?? MAX_DOC_LEN;
    this.#refineTokens = options.refineTokens ?? REFINE_TOKENS;
    this.#refineTemperature = options.refineTemperature ?? 0;
  }

  protected setupState(_row: SearchO1Row, { models = {} }: EpisodeOptions): SearchO1State {
    const state: SearchO1State = { turns: 0, searches: 0, queries: [], repeated_queries: 0, refused_queries: 0 };
    this.#plays.set(state, { refiner: models['refiner'] ?? SENTENCE_REFINER, output: '' });
    return state;
  }

  protected async envResponse(kept: string, state: SearchO1State, { opening = '', signal }: StepContext): Promise<EnvResponse> {
    const play = this.#plays.get(state)!;
    // Upstream shows the refiner only what the model wrote.
    play.output += kept.slice(opening.length);
    const query = extractQuery(kept);
    if (query === null) return { done: true };
    const response = await this.#answer(query, state, play, signal);
    play.output += response.observation;
    return response;
  }

  async #answer(query: string, state: SearchO1State, play: Play, signal: AbortSignal) {
    if (state.searches >= this.#maxSearchLimit) {
      state.refused_queries += 1;
      return { observation: LIMIT_NOTE, kind: 'corrective' as const };
    }
    if (state.queries.includes(query)) {
      state.repeated_queries += 1;
      return { observation: REPEATED_NOTE, kind: 'corrective' as const };
    }
    state.searches += 1;
    state.queries.push(query);
    const pages = await this.#pages(query, signal);
    return { observation: searchResult(await this.#refine({ query, pages }, play, signal)) };
  }

  /** Throws on failure instead of returning no pages, so that an outage does not lower the model's score. */
  async #pages(query: string, signal: AbortSignal): Promise<readonly WebPage[]> {
    try {
      return await this.#search.search(query, { signal });
    } catch (cause) {
      if (cause instanceof VfError) throw cause;
      throw new RetrievalError(`The search ${this.#search.name} failed: ${thrownText(cause)}`, { cause });
    }
  }

  async #refine(data: RefinementData, { refiner, output }: Play, signal: AbortSignal): Promise<string> {
    const documents = formatWebPages(data.pages, { maxDocLen: this.#maxDocLen });
    const content = refinementPrompt({ reasoning: previousReasoning(output), query: data.query, documents });
    const { text } = await refiner.generate([{ role: 'user', content }], {
      maxTokens: this.#refineTokens,
      sampling: { temperature: this.#refineTemperature },
      data,
      signal,
    });
    return extractInformation(text);
  }

  override async close(): Promise<void> {
    await this.#search.close();
  }
}
