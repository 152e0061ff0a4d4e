/** A run that is being viewed: its sets with their readers, its tokenizer, its metrics. */
import { lastUsed } from './last-used.ts';
import type { FoundRun } from './find-runs.ts';
import { LineIndex } from './line-index.ts';
import { fieldsOf, textOf } from './loose-fields.ts';
import { MetricFile } from './metric-file.ts';
import { RolloutReader } from './rollout-reader.ts';
import { rolloutSets, type SetFile } from './rollout-sets.ts';
import { evaluationLine, trainingLine } from './run-line.ts';
import { RunSettings } from './run-settings.ts';
import type { FoundTokenizer, RunTokenizers } from './run-tokenizers.ts';
import { ViewRequestError } from './view-problem.ts';
import type { RolloutPlace, RunLine } from './view-wire.ts';

/** Rollouts whose figures stay in memory, of all runs together: some 50 MB. */
const MOST_ROLLOUTS = 400_000;
const MOST_FILES = 2000;

/** Readers of all runs, the least recently used first. */
export class OpenFiles {
  readonly #readers = new Map<string, RolloutReader>();
  readonly #lines = new Map<string, LineIndex>();

  async reader(key: string, make: () => RolloutReader): Promise<RolloutReader> {
    const reader = lastUsed(this.#readers, key, make);
    let rollouts = (await reader.table()).count;
    for (const [other, { index }] of [...this.#readers].toReversed()) {
      if (other === key) continue;
      rollouts += index.current.count;
      if (rollouts > MOST_ROLLOUTS || this.#readers.size > MOST_FILES) this.#readers.delete(other);
    }
    return reader;
  }

  lines(key: string, make: () => LineIndex): LineIndex {
    const index = lastUsed(this.#lines, key, make);
    // The index of an evaluation with 100,000 rollouts takes 20 MB.
    while (this.#lines.size > MOST_LINE_FILES) this.#lines.delete(this.#lines.keys().next().value!);
    return index;
  }
}

const MOST_LINE_FILES = 8;

export class OpenRun {
  readonly found: FoundRun;
  readonly metrics: MetricFile;
  readonly settings: RunSettings;
  readonly #files: OpenFiles;
  readonly #tokenizers: RunTokenizers;

  constructor(found: FoundRun, { files, tokenizers }: { readonly files: OpenFiles; readonly tokenizers: RunTokenizers }) {
    this.found = found;
    this.metrics = new MetricFile(found.directory);
    this.settings = new RunSettings(found);
    this.#files = files;
    this.#tokenizers = tokenizers;
  }

  line(): Promise<RunLine> {
    const settings = () => this.settings.read();
    return this.found.kind === 'evaluation' ? evaluationLine(this.found, settings) : trainingLine(this.found, { metrics: this.metrics, settings });
  }

  async sets(): Promise<readonly SetFile[]> {
    return rolloutSets(this.found, this.found.kind === 'training' ? await this.metrics.playedBy() : new Map());
  }

  /** Throws ViewRequestError for a set that the run does not have. */
  async set(id: string): Promise<SetFile> {
    const found = (await this.sets()).find(({ set }) => set.id === id);
    if (found !== undefined) return found;
    throw new ViewRequestError(404, `The run ${this.found.id} has no rollouts "${id.slice(0, 100)}". Choose others on its page.`);
  }

  reader({ file, rewards }: SetFile): Promise<RolloutReader> {
    // The prompts of an evaluation are text.
    const tokenizer = async () => (this.found.kind === 'evaluation' ? null : (await this.tokenizer()).tokenizer);
    return this.#files.reader(`${file.directory}\0${file.name}`, () => new RolloutReader(file, { tokenizer, rewards }));
  }

  /** The recorded tokens of an evaluation. */
  tokenLines(): LineIndex {
    const { directory } = this.found;
    return this.#files.lines(`${directory}\0tokens`, () => new LineIndex({ directory, name: 'tokens.jsonl', isPacked: false }));
  }

  askedLines({ asked }: SetFile): LineIndex {
    return this.#files.lines(`${asked.directory}\0${asked.name}`, () => new LineIndex(asked));
  }

  /** Throws ViewRequestError for a rollout that the set does not have. */
  async place({ set: id, group, index }: Omit<RolloutPlace, 'run'>) {
    const set = await this.set(id);
    const reader = await this.reader(set);
    const table = await reader.table();
    const row = table.find(group, index);
    if (row === null)
      throw new ViewRequestError(
        404,
        `The rollout ${group.slice(0, 100)}/${index} is not among the rollouts "${id}". It may be played again; load the page again.`,
      );
    return { set, reader, table, row };
  }

  async tokenizer(): Promise<FoundTokenizer> {
    return await this.#tokenizers.find(await this.#usedTokenizer());
  }

  async #usedTokenizer(): Promise<{ hash: string | null; model: string | null }> {
    const settings = await this.settings.read();
    if (this.found.kind === 'training') return { hash: null, model: textOf(fieldsOf(settings['model'])['path']) };
    return { hash: textOf(fieldsOf(settings['policy'])['tokenizer_hash']), model: textOf(settings['model']) };
  }
}
