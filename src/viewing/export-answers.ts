/**
 * The answers to a page's requests about runs, collected for a file that opens without a server. They are bounded, so that a browser can open the file. Omitted
 * answers are counted, never silent.
 */
import { CancelledError, thrownText } from '../core/errors.ts';
import type { FileSource } from './file-source.ts';
import { VIEW_REQUESTS } from './request-key.ts';
import type {
  Comparison,
  Content,
  RolloutDetail,
  RolloutLine,
  RolloutPage,
  RolloutSet,
  RunDetail,
  RunLine,
  TokensPlace,
  TrainingDetail,
} from './view-wire.ts';

export interface ExportLimits {
  /** Rollouts of a set. @default 2000 */
  readonly rolloutsPerSet?: number;
  /** Characters of all answers that are not tokens or images. @default 120,000,000 */
  readonly textCharacters?: number;
  /** Characters of tokens, and of images in base64. @default 60,000,000 each */
  readonly tokenCharacters?: number;
  readonly imageCharacters?: number;
  /** Bytes of one image. @default 4,000,000 */
  readonly imageBytes?: number;
}

const DEFAULT_LIMITS: Required<ExportLimits> = {
  rolloutsPerSet: 2000,
  textCharacters: 120e6,
  tokenCharacters: 60e6,
  imageCharacters: 60e6,
  imageBytes: 4e6,
};

/** With more evaluations than this, pairs of them are not compared: their number grows with the square. */
const MOST_COMPARED = 6;
const PAGE_ROWS = 500;

type Kind = 'text' | 'tokens' | 'images';

export class ExportAnswers {
  readonly #source: FileSource;
  readonly #limits: Required<ExportLimits>;
  readonly #left: Record<Kind, number>;
  readonly #images = new Map<string, { readonly run: string; readonly sha256: string }>();
  readonly #leftOut = new Map<string, number>();
  /** By run and file. */
  readonly #damage = new Set<string>();

  constructor(source: FileSource, limits: ExportLimits = {}) {
    this.#source = source;
    this.#limits = { ...DEFAULT_LIMITS, ...limits };
    this.#left = { text: this.#limits.textCharacters, tokens: this.#limits.tokenCharacters, images: this.#limits.imageCharacters };
  }

  /** The parts that were left out so far, one line each: first by damaged file, then others, counted. */
  get leftOut(): string[] {
    return [...this.#damage, ...[...this.#leftOut].map(([what, count]) => `${count.toLocaleString('en')} ${what}`)];
  }

  /** Pairs of a request's key and the JSON of its answer. All small answers come first, so that only the largest can be left out. */
  async *pairs(signal: AbortSignal): AsyncGenerator<readonly [key: string, json: string]> {
    await this.#source.examine(signal);
    const list = await this.#source.runs();
    yield [VIEW_REQUESTS.runs(), JSON.stringify(list)];
    const details: RunDetail[] = [];
    for (const { id, problems } of list.runs) {
      signal.throwIfAborted();
      for (const problem of problems) this.#damaged(id, problem);
      const detail = await this.#asked(id, 'its page', () => this.#source.run(id));
      if (detail === null) continue;
      details.push(detail);
      yield* this.#put(VIEW_REQUESTS.run(id), detail, 'runs');
      for (const problem of detail.run.problems) this.#damaged(id, problem);
      const metrics = detail.kind === 'training' ? await this.#asked(id, 'its curves', () => this.#source.metrics(id, 0)) : null;
      if (metrics !== null) yield* this.#put(VIEW_REQUESTS.metrics(id, 0), metrics, 'curves');
    }
    yield* this.#comparisons(details);
    for (const detail of details) if (detail.kind === 'training') yield* this.#heldOut(detail, signal);
    for (const { run, sets } of details) for (const set of inOrder(sets)) yield* this.#set(run, set, signal);
    yield* this.#storeImages(signal);
  }

  async *#heldOut({ run, held_out: rows }: TrainingDetail, signal: AbortSignal): AsyncGenerator<readonly [string, string]> {
    for (const { group } of rows) {
      signal.throwIfAborted();
      const detail = await this.#asked(run.id, 'held-out questions', () => this.#source.heldOut(run.id, group));
      if (detail === null) continue;
      this.#note(
        run.id,
        detail.evaluations.flatMap(({ rollouts }) => rollouts.flatMap(({ parts }) => parts.flatMap(({ content }) => content))),
      );
      yield* this.#put(VIEW_REQUESTS.heldOut(run.id, group), detail, 'held-out questions over time');
    }
  }

  async *#set(run: RunLine, set: RolloutSet, signal: AbortSignal): AsyncGenerator<readonly [string, string]> {
    const page = await this.#asked(run.id, 'a set of rollouts', () => this.#page(run.id, set.id));
    if (page === null) return;
    const step = set.kind === 'step' ? await this.#asked(run.id, 'a step of training', () => this.#source.step(run.id, set.step!)) : null;
    if (step !== null) yield* this.#put(VIEW_REQUESTS.step(run.id, set.step!), step, 'steps of training');
    yield* this.#put(VIEW_REQUESTS.rollouts({ run: run.id, set: set.id }), page, 'tables of rollouts');
    for (const { group, index } of page.rows) {
      signal.throwIfAborted();
      const place = { run: run.id, set: set.id, group, index };
      const detail = await this.#asked(run.id, 'transcripts', () => this.#source.rollout(place));
      if (detail === null) continue;
      this.#note(run.id, contentsOf(detail));
      yield* this.#put(VIEW_REQUESTS.rollout(place), detail, 'transcripts of rollouts');
      if (detail.has_tokens && this.#left.tokens > 0) {
        // The first branch has no number in its key, as the only one has none.
        for (let branch = 0; branch < Math.max(1, detail.branches.length); branch++) yield* this.#tokens(branch === 0 ? place : { ...place, branch });
      } else if (detail.has_tokens) this.#leave('rollouts without their tokens');
    }
  }

  async *#tokens(place: TokensPlace): AsyncGenerator<readonly [string, string]> {
    const tokens = await this.#asked(place.run, 'tokens', () => this.#source.tokens(place));
    const what = place.branch === undefined ? 'rollouts without their tokens' : 'branches without their tokens';
    if (tokens !== null) yield* this.#put(VIEW_REQUESTS.tokens(place), tokens, what, 'tokens');
  }

  /** The rows of a set as one page. */
  async #page(run: string, set: string): Promise<RolloutPage> {
    const first = await this.#source.rollouts({ run, set, count: PAGE_ROWS });
    const most = Math.min(first.total, this.#limits.rolloutsPerSet);
    const rows: RolloutLine[] = [...first.rows];
    while (rows.length < most) {
      const { rows: more } = await this.#source.rollouts({ run, set, from: rows.length, count: PAGE_ROWS });
      if (more.length === 0) break;
      rows.push(...more);
    }
    const rest = first.total - most;
    if (rest <= 0) return { ...first, rows };
    this.#leave('rollouts beyond the first of their set', rest);
    const problem = `This file has the first ${most} of ${first.total} rollouts.`;
    return { ...first, rows: rows.slice(0, most), problem: first.problem === null ? problem : `${first.problem} ${problem}` };
  }

  /** Evaluations with each other, and the first with the last evaluation of a training run. */
  async *#comparisons(details: readonly RunDetail[]): AsyncGenerator<readonly [string, string]> {
    const results = details.filter(({ kind }) => kind === 'evaluation').map(({ run }) => ({ run: run.id, set: 'results' }));
    const choices = results.length > MOST_COMPARED ? [] : results.flatMap((a) => results.filter((b) => a !== b).map((b) => [a, b]));
    if (results.length > MOST_COMPARED) this.#leave('evaluations that are not compared with each other', results.length);
    for (const { run, sets } of details) {
      const evaluations = sets.filter(({ kind, older }) => kind === 'evaluation' && !older);
      if (evaluations.length < 2) continue;
      const [first, last] = [evaluations[0]!, evaluations.at(-1)!].map(({ id }) => ({ run: run.id, set: id }));
      choices.push([first!, last!], [last!, first!]);
    }
    if (results.length > 2 && results.length <= MOST_COMPARED) choices.push(results);
    for (const sets of choices) {
      const comparison = await this.#asked(sets[0]!.run, 'a comparison', () => this.#comparison(sets));
      if (comparison !== null) yield* this.#put(VIEW_REQUESTS.compare({ sets }), comparison, 'comparisons');
    }
  }

  async #comparison(sets: readonly { readonly run: string; readonly set: string }[]): Promise<Comparison> {
    const first = await this.#source.compare({ sets, count: PAGE_ROWS });
    const rows = [...first.rows];
    const most = Math.min(first.shared, this.#limits.rolloutsPerSet);
    while (rows.length < most) {
      const { rows: more } = await this.#source.compare({ sets, from: rows.length, count: PAGE_ROWS });
      if (more.length === 0) break;
      rows.push(...more);
    }
    if (first.shared > rows.length) this.#leave('rows of comparisons beyond the first', first.shared - rows.length);
    return { ...first, rows };
  }

  async *#storeImages(signal: AbortSignal): AsyncGenerator<readonly [string, string]> {
    for (const [key, { run, sha256 }] of this.#images) {
      signal.throwIfAborted();
      const image = await this.#source.imageBytes(run, sha256).catch(() => null);
      if (image === null || image.bytes.length > this.#limits.imageBytes) this.#leave(image === null ? 'images that are missing' : 'large images');
      else yield* this.#put(key, `data:${image.mediaType};base64,${image.bytes.toString('base64')}`, 'images', 'images');
    }
  }

  /** The answer; null, and noted, for one that a damaged file of the run prevents. */
  async #asked<T>(run: string, what: string, ask: () => Promise<T>): Promise<T | null> {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof CancelledError) throw error;
      const why = thrownText(error);
      if (!this.#damage.has(damageText(run, why))) this.#leave(`part of ${run}, ${what} (${why})`);
      return null;
    }
  }

  #note(run: string, contents: readonly Content[]): void {
    for (const content of contents)
      if (content.type === 'image') this.#images.set(VIEW_REQUESTS.image(run, content.sha256), { run, sha256: content.sha256 });
  }

  *#put(key: string, answer: unknown, what: string, kind: Kind = 'text'): Generator<readonly [string, string]> {
    const json = JSON.stringify(answer);
    if (json.length > this.#left[kind]) {
      this.#leave(what);
      return;
    }
    this.#left[kind] -= json.length;
    yield [key, json];
  }

  #damaged(run: string, problem: string): void {
    this.#damage.add(damageText(run, problem));
  }

  #leave(what: string, count = 1): void {
    this.#leftOut.set(what, (this.#leftOut.get(what) ?? 0) + count);
  }
}

function damageText(run: string, problem: string): string {
  return `part of ${run === '.' ? 'the run' : run}: ${problem}`;
}

/** Results and evaluations first, then steps, the newest first. */
function inOrder(sets: readonly RolloutSet[]): RolloutSet[] {
  const steps = sets.filter(({ kind }) => kind === 'step');
  return [...sets.filter(({ kind }) => kind !== 'step'), ...steps.toReversed()];
}

function contentsOf({ prompt, parts, asked, branches }: RolloutDetail): Content[] {
  const ofBranches = branches.flatMap((branch) => [...branch.prompt, ...branch.parts]);
  return [...prompt, ...parts, ...ofBranches, ...asked.flatMap(({ messages }) => messages)].flatMap(({ content }) => content);
}
