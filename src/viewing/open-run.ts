/** A run that is being viewed: its sets with their readers, its tokenizer, its metrics. */
import { withOlderSetup } from '../core/environment-version.ts';
import { hasLivingWriter } from '../files/run-lock.ts';
import { SettingHistory, wholeSettings } from '../trainer/records/setting-history.ts';
import { lastUsed } from './last-used.ts';
import { EventFile } from './event-file.ts';
import type { FoundRun } from './find-runs.ts';
import { LineIndex } from './line-index.ts';
import { type Fields, fieldsOf, textOf } from './loose-fields.ts';
import { MetricFile } from './metric-file.ts';
import { type ExaminedFile, RunDamage } from './run-damage.ts';
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
/** Of a run's changed files that are read for its line in the list. */
const LIST_BYTES = 2 ** 20;

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
  readonly events: EventFile;
  readonly settings: RunSettings;
  readonly damage: RunDamage;
  readonly #files: OpenFiles;
  readonly #tokenizers: RunTokenizers;

  constructor(found: FoundRun, { files, tokenizers }: { readonly files: OpenFiles; readonly tokenizers: RunTokenizers }) {
    this.found = found;
    this.metrics = new MetricFile(found.directory);
    this.events = new EventFile(found.directory);
    this.settings = new RunSettings(found);
    this.damage = new RunDamage({ found, files: () => this.#examined(), sets: () => this.sets(), filesOf: (set) => this.#filesOf(set) });
    this.#files = files;
    this.#tokenizers = tokenizers;
  }

  /** With the damage of its own files, as far as that is quickly seen, and what was seen of the files of its rollouts. */
  async line(): Promise<RunLine> {
    const line = await (this.found.kind === 'evaluation' ? evaluationLine(this.found, this.settings) : trainingLine(this.found, this));
    return { ...line, problems: await this.damage.problems({ mostBytes: LIST_BYTES, withSets: this.found.kind === 'evaluation' }) };
  }

  /** The settings with every value of those that changed between the steps of a training; empty for a damaged file. */
  async wholeSettings(): Promise<Fields> {
    return (await this.#whole())(await this.settings.readable());
  }

  /** Those that a result depends on, with every value too. @param through the last step of the result. @default the run's last one */
  async settingsOfResult(through = Infinity): Promise<Fields> {
    return await this.settings.ofResult(await this.#whole(through));
  }

  async #whole(through = Infinity): Promise<(settings: Fields) => Fields> {
    if (this.found.kind === 'evaluation') return (settings) => settings;
    const history = await this.events.history().catch(() => new SettingHistory());
    const lines = await this.metrics.lines().catch(() => []);
    const step = lines.findLast(({ kind }) => kind === 'step')?.step ?? 0;
    return (settings) => wholeSettings(history.through(settings, Math.min(step, through)));
  }

  isBeingWritten(): Promise<boolean> {
    return hasLivingWriter(this.found.directory).catch(() => false);
  }

  /** Without those of a folder that is none. */
  async sets(): Promise<readonly SetFile[]> {
    return rolloutSets(
      this.found,
      this.found.kind === 'training' ? await this.metrics.playedBy().catch(() => new Map<number, never>()) : new Map<number, never>(),
    );
  }

  /** Throws ViewRequestError for a set that the run does not have. */
  async set(id: string): Promise<SetFile> {
    const found = (await this.sets()).find(({ set }) => set.id === id);
    if (found !== undefined) return found;
    throw new ViewRequestError(404, `The run ${this.found.id} has no rollouts "${id.slice(0, 100)}". Choose others on its page.`);
  }

  /** Those that its results depend on. */
  async settingsOf(id: string): Promise<Fields> {
    const { set } = await this.set(id);
    const settings = await this.settingsOfResult(set.step ?? Infinity);
    const played = set.older && set.step !== null ? (await this.metrics.playedBy()).get(set.step) : undefined;
    return played === undefined || played.setup === null ? settings : withOlderSetup(settings, played.setup);
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

  /** What is wrong with the file of a set. A training may play a rollout again in the file of a step. */
  rolloutProblems({ index }: RolloutReader, isBeingWritten: boolean): string[] {
    const { repeated, firstRepeated } = index.current;
    const found = index.problems(isBeingWritten);
    if (repeated === 0 || this.found.kind === 'training') return found;
    const lines = repeated === 1 ? `1 line of ${index.file.name} has` : `${repeated} lines of ${index.file.name} have`;
    return [...found, `${lines} the id of a finished rollout (the first is line ${firstRepeated}); the last line of each rollout is shown.`];
  }

  #examined(): ExaminedFile[] {
    if (this.found.kind === 'evaluation') return [...this.settings.files, { name: 'played.jsonl' }, { name: 'trace.jsonl' }];
    const follow = (name: string, file: Pick<EventFile, 'problem'>, refresh: () => Promise<unknown>): ExaminedFile => ({
      name,
      read: async (isBeingWritten) => {
        await refresh();
        return [file.problem(isBeingWritten)];
      },
    });
    return [
      ...this.settings.files,
      follow('metrics.jsonl', this.metrics, () => this.metrics.lines()),
      follow('events.jsonl', this.events, () => this.events.events()),
    ];
  }

  #filesOf(set: SetFile): ExaminedFile[] {
    const { file, asked, rewards, advantages } = set;
    const index = (name: string, lines: () => LineIndex): ExaminedFile => ({
      name,
      read: async (isBeingWritten) => {
        await lines().refresh();
        return [lines().problem(isBeingWritten)];
      },
    });
    const rollouts: ExaminedFile = {
      name: file.name,
      isNeeded: true,
      read: async (isBeingWritten) => {
        const reader = await this.reader(set);
        await reader.table();
        return this.rolloutProblems(reader, isBeingWritten);
      },
    };
    return [
      rollouts,
      ...(this.found.kind === 'evaluation' ? [index('tokens.jsonl', () => this.tokenLines())] : []),
      index(asked.name, () => this.askedLines(set)),
      ...[rewards, advantages].flatMap((other) => (other === null ? [] : [{ name: other.name }])),
    ];
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
    const settings = await this.settings.readable();
    if (this.found.kind === 'training') return { hash: null, model: textOf(fieldsOf(settings['model'])['path']) };
    return { hash: textOf(fieldsOf(settings['policy'])['tokenizer_hash']), model: textOf(settings['model']) };
  }
}
