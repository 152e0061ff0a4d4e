/**
 * The visual-document searcher (DDAI): the policy searches pages, cuts parts out of them and completes; a frozen generator answers from what it collected. Rows,
 * pages and retriever are passed in; `loadEnvironment` loads them.
 */
import {
  ConfigError,
  Dataset,
  EnvironmentError,
  type EnvResponse,
  type EpisodeOptions,
  type EpisodeState,
  MultiTurnEnv,
  RetrievalError,
  type Retriever,
  type RewardContext,
  type StepContext,
  VfError,
} from 'vf-search';
import { type EnvironmentLimits, type ImageSizes, type ImageStore, MAX_ASPECT, thrownText } from 'vf-search/environment-kit';
import { isComplete, parseAction } from './actions.ts';
import { BOXING_BASELINE } from './baseline.ts';
import { cropArea, parseBox } from './boxes.ts';
import { generatorImages } from './evidence.ts';
import { askGenerator, wordsOf } from './generator.ts';
import { PageViewer, type ViewerOptions } from './page-viewer.ts';
import { nextPage } from './pages.ts';
import type { Shown } from './reading.ts';
import { VISUAL_ROLES } from './roles.ts';
import type { VisualRow } from './rows.ts';
import { isPassed, type RubricOptions, visualRubric } from './rubric.ts';
import type { VisualState } from './state.ts';
import { FORCED_COMPLETION, INVALID_ACTION, invalidBox, NO_HITS, NO_PAGE } from './texts.ts';
import { tracedPicture } from './traced-picture.ts';

/** Upstream's lengths in tokens: data.max_prompt_length 256 and max_response_length 2048. */
const UPSTREAM_LIMITS: Partial<EnvironmentLimits> = { responseTokens: 2048 };

export interface VisualRagOptions extends RubricOptions, ViewerOptions {
  readonly name?: string;
  readonly rows: readonly VisualRow[];
  /** The rows for training. @default none: reading `train` throws */
  readonly trainRows?: readonly VisualRow[];
  /** Its passages' ids are names of pages. Closed together with the environment. */
  readonly retriever: Retriever;
  /** Turns, the environment's own last one included, at least 2. @default 7 (DDAI) */
  readonly maxTurns?: number;
  /** Results per search, at least 1. @default 10 */
  readonly topk?: number;
  /** The greatest number of pictures for the generator. @default 8 (DDAI) */
  readonly maxImages?: number;
  /** The greatest number of tokens in the generator's reply. @default 3072 (DDAI, rounds 1 and 2) */
  readonly generatorMaxTokens?: number;
  /** The choice of the generator's pictures if there are too many. @default 'newest' */
  readonly evidence?: 'newest' | 'upstream';
  /** The store for the pictures of `image` mode. */
  readonly images?: ImageStore;
  readonly limits?: Partial<EnvironmentLimits>;
  readonly notices?: readonly string[];
  readonly provenance?: Readonly<Record<string, unknown>>;
}

export class VisualRagEnv extends MultiTurnEnv<VisualRow, VisualState & EpisodeState> {
  override readonly baseline = BOXING_BASELINE;
  readonly withoutImages?: string;
  readonly #options: VisualRagOptions;
  readonly #viewer: PageViewer;
  readonly #lastTurn: number;
  /** These are kept outside the state, which is plain data: the image sizes of each episode's policy, and the page that its boxes refer to. */
  readonly #episodes = new WeakMap<VisualState, { readonly imageSizes: ImageSizes | null; last: Shown | null }>();

  constructor(options: VisualRagOptions) {
    const {
      name = 'visual-rag',
      rows,
      trainRows,
      maxTurns = 7,
      pages,
      phase = 2,
      observations = 'ocr',
      images,
      limits,
      notices,
      provenance,
    } = options;
    if (observations === 'image' && (images === undefined || pages.pictures === null))
      throw new ConfigError('Observations by image need pictures of the pages and a store for what is shown. Pass pages with pictures, and images.');
    super({
      id: 'visual-rag',
      eval: new Dataset(name, rows),
      ...(trainRows ? { train: new Dataset(name, trainRows) } : {}),
      rubric: visualRubric(options),
      // The environment writes the last turn.
      maxTurns: maxTurns - 1,
      limits: { ...UPSTREAM_LIMITS, ...limits },
      turnFormat: 'chat',
      // The built-in reader reads words, not pictures.
      roles: phase === 1 || pages.hasWords ? VISUAL_ROLES : { ...VISUAL_ROLES, generator: { about: VISUAL_ROLES.generator.about, default: null } },
      ...(observations === 'image' ? { images: images! } : {}),
      traces: true,
      ...(notices ? { notices } : {}),
      ...(provenance ? { provenance } : {}),
    });
    if (pages.hasWords) this.withoutImages = 'set observations to "ocr", which shows the words of the pages';
    this.#options = options;
    this.#viewer = new PageViewer(options);
    this.#lastTurn = maxTurns - 1;
  }

  protected setupState(_row: VisualRow, { imageSizes = null }: EpisodeOptions): VisualState {
    const state: VisualState = {
      turns: 0,
      searches: 0,
      crops: 0,
      invalid_actions: 0,
      completed: false,
      forced: false,
      pages: [],
      evidence: [],
      found: [],
    };
    this.#episodes.set(state, { imageSizes, last: null });
    return state;
  }

  protected async envResponse(kept: string, state: VisualState, context: StepContext): Promise<EnvResponse> {
    const { action, content } = parseAction(kept);
    // As in upstream, a completion ends the episode whatever its content; only `true` is a completed search.
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
    const { phase = 2, maxImages = 8, generatorMaxTokens: maxTokens = 3072, evidence: order = 'newest', judgeSees, forcedStop } = this.#options;
    const { evidence, forced } = context.state as VisualState;
    // No model is asked about an episode whose reward is 0 in any case.
    const isLost = !isPassed(context, this.#options) || (forced && forcedStop === 'zero');
    if (phase === 1 || isLost) return { generated_answer: null };
    const each = distinct(evidence);
    const [pages, crops] = [each.filter(({ area }) => area === null), each.filter(({ area }) => area !== null)];
    const shown = generatorImages(pages, crops, { maxImages, order });
    const read = async (picture: Shown) => ({
      words: await this.#viewer.read(picture, context.signal),
      ...(picture.image && { image: picture.image }),
    });
    const seen = await Promise.all(shown.map(read));
    const answer = await askGenerator(context, { evidence: seen, maxTokens });
    return { generated_answer: answer, ...(judgeSees === 'evidence' && { judged_evidence: seen.map((one) => one.image ?? wordsOf(one)) }) };
  }

  override async close(): Promise<void> {
    await this.#options.retriever.close();
  }

  async #answer(
    { action, content }: { action: 'search' | 'bbox' | null; content: string },
    state: VisualState,
    context: StepContext,
  ): Promise<EnvResponse> {
    if (action === 'search') return this.#search(content, state, context);
    const problem = action === 'bbox' ? await this.#crop(content, state, context) : INVALID_ACTION;
    if (typeof problem !== 'string') return problem;
    if (action === 'bbox') context.trace?.('crop', { box: content, problem });
    state.invalid_actions += 1;
    return { observation: problem, kind: 'corrective' };
  }

  async #search(query: string, state: VisualState, { signal, trace }: StepContext): Promise<EnvResponse> {
    trace?.('search.request', { query });
    const askedMs = performance.now();
    const results = await this.#find(query, signal);
    const found = { query, results, ms: Math.round(performance.now() - askedMs) };
    state.searches += 1;
    state.found.push(results);
    const { page, isNew } = nextPage(results, state.pages);
    if (page === null) {
      trace?.('search.response', { ...found, page: null, text: NO_HITS });
      return { observation: NO_HITS };
    }
    const source = await this.#options.pages.page(page, signal);
    const { imageSizes } = this.#episode(state);
    const shown = await this.#viewer.view(source, null, { sizes: imageSizes, signal });
    if (shown === null)
      throw new EnvironmentError(
        `The page ${JSON.stringify(page)} has ${source.width} × ${source.height} pixels; one side may be at most ${MAX_ASPECT} times the other.`,
      );
    if (isNew) {
      state.pages.push(page);
      state.evidence.push(shown);
    }
    this.#episode(state).last = shown;
    const response = this.#viewer.observation(shown, await this.#viewer.read(shown, signal));
    trace?.('search.response', { ...found, is_new: isNew, ...tracedPicture(shown, response) });
    return response;
  }

  /** Shows the part that the box cuts out, or names the fault of the box. */
  async #crop(content: string, state: VisualState, { signal, trace }: StepContext): Promise<EnvResponse | string> {
    const { last, imageSizes } = this.#episode(state);
    if (last === null) return NO_PAGE;
    const box = parseBox(content);
    if (box === null) return invalidBox('it must be a list of four numbers that are at least 0');
    const page = await this.#options.pages.page(last.page, signal);
    const area = cropArea(box, { shown: last.size, page });
    if (area === null) return invalidBox(`it leaves nothing of the page, which was shown with ${last.size.width} x ${last.size.height} pixels`);
    const shown = await this.#viewer.view(page, area, { sizes: imageSizes, signal });
    if (shown === null) return invalidBox(`one side of it is more than ${MAX_ASPECT} times the other`);
    state.crops += 1;
    state.evidence.push(shown);
    const response = this.#viewer.observation(shown, await this.#viewer.read(shown, signal));
    trace?.('crop', { box: content, ...tracedPicture(shown, response) });
    return response;
  }

  #episode(state: VisualState) {
    return this.#episodes.get(state)!;
  }

  /** Throws on failure instead of returning nothing, so that an outage does not lower the model's score. */
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

/** Every page and crop once, at the place where it was last shown. */
function distinct(evidence: readonly Shown[]): Shown[] {
  return [...new Map(evidence.toReversed().map((shown) => [JSON.stringify([shown.page, shown.area]), shown])).values()].toReversed();
}
