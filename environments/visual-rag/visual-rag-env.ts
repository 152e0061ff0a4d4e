/**
 * The visual-document searcher (DDAI): the policy searches pages, cuts parts out of them and completes; a frozen generator answers from what it collected. Rows,
 * pages and retriever are passed in; `loadEnvironment` loads them.
 */
import {
  Dataset,
  type EnvironmentLimits,
  type EnvResponse,
  type EpisodeState,
  MultiTurnEnv,
  type PixelRange,
  RetrievalError,
  type Retriever,
  type RewardContext,
  type StepContext,
  thrownText,
  VfError,
} from 'vf-search';
import { isComplete, parseAction } from './actions.ts';
import { BOXING_BASELINE } from './baseline.ts';
import { type Area, cropArea, parseBox, type Size } from './boxes.ts';
import type { DocumentPage } from './documents.ts';
import { generatorImages } from './evidence.ts';
import { askGenerator } from './generator.ts';
import { nextPage } from './pages.ts';
import { fitPixels, SHOWN_PIXELS } from './picture-sizes.ts';
import { pictureText, readWords, type Shown } from './reading.ts';
import { VISUAL_ROLES } from './roles.ts';
import type { VisualRow } from './rows.ts';
import { isPassed, type RubricOptions, visualRubric } from './rubric.ts';
import type { VisualState } from './state.ts';
import { FORCED_COMPLETION, INVALID_ACTION, invalidBox, NO_HITS, NO_PAGE } from './texts.ts';

/** Upstream's lengths in tokens: data.max_prompt_length 256 and max_response_length 2048. */
const UPSTREAM_LIMITS: Partial<EnvironmentLimits> = { responseTokens: 2048 };

export interface VisualRagOptions extends RubricOptions {
  readonly name?: string;
  readonly rows: readonly VisualRow[];
  /** @default rows */
  readonly trainRows?: readonly VisualRow[];
  /** Its passages' ids are names of pages. Closed together with the environment. */
  readonly retriever: Retriever;
  readonly pages: ReadonlyMap<string, DocumentPage>;
  /** Turns, the environment's own last one included, at least 2. @default 7 (DDAI) */
  readonly maxTurns?: number;
  /** Results per search, at least 1. @default 10 */
  readonly topk?: number;
  /** In pixels of the shown picture: words that are lower cannot be read. @default 9 */
  readonly legiblePx?: number;
  /** Sides of shown pictures are multiples of this; 0 for any. @default 28 */
  readonly align?: number;
  /** Bounds of a shown picture's pixels. @default SHOWN_PIXELS */
  readonly shownPixels?: PixelRange;
  /** Most pictures for the generator. @default 8 (DDAI) */
  readonly maxImages?: number;
  /** Which pictures the generator sees where there are too many. @default 'newest' */
  readonly evidence?: 'newest' | 'upstream';
  readonly limits?: Partial<EnvironmentLimits>;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

export class VisualRagEnv extends MultiTurnEnv<VisualRow, VisualState & EpisodeState> {
  readonly baseline = BOXING_BASELINE;
  readonly #options: VisualRagOptions;
  readonly #lastTurn: number;

  constructor(options: VisualRagOptions) {
    const { name = 'visual-rag', rows, trainRows, maxTurns = 7, limits, notices, provenance } = options;
    super({
      id: 'visual-rag',
      eval: new Dataset(name, rows),
      ...(trainRows ? { train: new Dataset(name, trainRows) } : {}),
      rubric: visualRubric(options),
      // The environment writes the last turn.
      maxTurns: maxTurns - 1,
      limits: { ...UPSTREAM_LIMITS, ...limits },
      turnFormat: 'chat',
      roles: VISUAL_ROLES,
      ...(notices ? { notices } : {}),
      ...(provenance ? { provenance } : {}),
    });
    this.#options = options;
    this.#lastTurn = maxTurns - 1;
  }

  protected setupState(): VisualState {
    return { turns: 0, searches: 0, crops: 0, invalid_actions: 0, completed: false, forced: false, pages: [], evidence: [], found: [] };
  }

  protected async envResponse(kept: string, state: VisualState, context: StepContext): Promise<EnvResponse> {
    const { action, content } = parseAction(kept);
    // As upstream, a completion ends the episode whatever it holds; only `true` is a completed search.
    if (action === 'search_complete') {
      state.completed = isComplete(content);
      return { done: true };
    }
    const answer = await this.#answer({ action, content }, state, context);
    if (state.turns < this.#lastTurn) return answer;
    state.forced = true;
    return { observation: FORCED_COMPLETION, kind: 'corrective' };
  }

  /** Runs once the episode is over: the frozen generator answers from the evidence. */
  async finish(context: RewardContext<VisualRow>): Promise<Readonly<Record<string, unknown>>> {
    const { phase = 2, maxImages = 8, evidence: order = 'newest' } = this.#options;
    if (phase === 1 || !isPassed(context, this.#options)) return { generated_answer: null };
    const { evidence } = context.state as VisualState;
    const [pages, crops] = [evidence.filter(({ area }) => area === null), evidence.filter(({ area }) => area !== null)];
    const shown = generatorImages(pages, crops, { maxImages, order });
    return {
      generated_answer: await askGenerator(
        context,
        shown.map((picture) => this.#read(picture)),
      ),
    };
  }

  override async close(): Promise<void> {
    await this.#options.retriever.close();
  }

  async #answer(
    { action, content }: { action: 'search' | 'bbox' | null; content: string },
    state: VisualState,
    { signal }: StepContext,
  ): Promise<EnvResponse> {
    if (action === 'search') return this.#search(content, state, signal);
    const problem = action === 'bbox' ? this.#crop(content, state) : INVALID_ACTION;
    if (typeof problem !== 'string') return problem;
    state.invalid_actions += 1;
    return { observation: problem, kind: 'corrective' };
  }

  async #search(query: string, state: VisualState, signal: AbortSignal): Promise<EnvResponse> {
    const results = await this.#find(query, signal);
    state.searches += 1;
    state.found.push(results);
    const { page, isNew } = nextPage(results, state.pages);
    if (page === null) return { observation: NO_HITS };
    const shown = this.#shown(this.#page(page), null);
    if (isNew) {
      state.pages.push(page);
      state.evidence.push(shown);
    }
    this.#lastPages.set(state, shown);
    return this.#show(shown);
  }

  /** The page that each episode saw last, which boxes refer to. */
  readonly #lastPages = new WeakMap<VisualState, Shown>();

  /** Shows what the box cuts out, or says what is wrong with the box. */
  #crop(content: string, state: VisualState): EnvResponse | string {
    const last = this.#lastPages.get(state);
    if (last === undefined) return NO_PAGE;
    const box = parseBox(content);
    if (box === null) return invalidBox('it must be a list of four numbers that are at least 0');
    const page = this.#page(last.page);
    const area = cropArea(box, { shown: last.size, page });
    if (area === null) return invalidBox(`it leaves nothing of the page, which was shown with ${last.size.width} x ${last.size.height} pixels`);
    state.crops += 1;
    const shown = this.#shown(page, area);
    state.evidence.push(shown);
    return this.#show(shown);
  }

  #show(shown: Shown): EnvResponse {
    return { observation: pictureText(shown.area === null ? 'page' : 'crop', shown.size, this.#read(shown)) };
  }

  #read(shown: Shown) {
    return readWords(this.#page(shown.page), shown, { legiblePx: this.#options.legiblePx ?? 9 });
  }

  #shown(page: DocumentPage, area: Area | null): Shown {
    const { shownPixels = SHOWN_PIXELS, align = 28 } = this.#options;
    const source = area === null ? page : { width: area[2] - area[0], height: area[3] - area[1] };
    return { page: page.id, area, size: aligned(fitPixels(source, shownPixels), align) };
  }

  #page(id: string): DocumentPage {
    const page = this.#options.pages.get(id);
    if (page === undefined)
      throw new RetrievalError(
        `The retriever ${this.#options.retriever.name} found the page ${JSON.stringify(id.slice(0, 200))}, which the data set does not have. Use a retriever over the same pages.`,
      );
    return page;
  }

  /** Throws on failure instead of finding nothing, so that an outage does not lower the model's score. */
  async #find(query: string, signal: AbortSignal): Promise<string[]> {
    const { retriever, topk = 10 } = this.#options;
    let lists;
    try {
      lists = await retriever.search([query], { topk, signal });
    } catch (cause) {
      if (cause instanceof VfError) throw cause;
      throw new RetrievalError(`The retriever ${retriever.name} failed: ${thrownText(cause)}`, { cause });
    }
    return (lists[0] ?? []).map(({ id }) => {
      if (id === undefined)
        throw new RetrievalError(`The retriever ${retriever.name} found a passage without an id. It must give the name of a page as the id.`);
      return id;
    });
  }
}

/** Both sides rounded to the nearest multiples of `unit`, at least one. */
function aligned({ width, height }: Size, unit: number): Size {
  if (unit === 0) return { width: Math.max(1, width), height: Math.max(1, height) };
  const side = (value: number) => Math.max(1, Math.round(value / unit)) * unit;
  return { width: side(width), height: side(height) };
}
