/** Reads a file of rollouts: figures from its index, texts from its lines. */
import { instructionLength } from '../core/instruction-length.ts';
import { isDeeperThan, MOST_LEVELS } from '../schemas/nesting.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import { type Fields, fieldsOf } from './loose-fields.ts';
import { promptOf, questionOf } from './record-parts.ts';
import { type IndexedFile, RolloutIndex } from './rollout-index.ts';
import type { RolloutTable } from './rollout-table.ts';
import { FieldFinder } from './top-level-fields.ts';
import { ViewRequestError } from './view-problem.ts';
import type { RolloutLine } from './view-wire.ts';
import { withoutNonFinite } from '../core/finite-json.ts';

const QUESTION_CHARACTERS = 200;
/** Rows that are compared to find the instructions with which all of them begin, and rollouts that are examined for that. */
const SAMPLED_ROWS = 40;
const SAMPLED_ROLLOUTS = 4000;
/** Only these first bytes of a line are read for its question, because a prompt stands near the beginning. */
const QUESTION_BYTES = 2 ** 20;
const MOST_QUESTIONS = 20_000;

export interface ReaderOptions {
  /** The tokenizer of the run's model, for prompts that are recorded as tokens. */
  readonly tokenizer: () => Promise<ModelTokenizer | null>;
  /** The rewards that the rollouts got later. @default none */
  readonly rewards?: IndexedFile | null;
}

export class RolloutReader {
  readonly index: RolloutIndex;
  readonly #tokenizer: ReaderOptions['tokenizer'];
  readonly #finder = new FieldFinder(['prompt', 'prompt_length', 'ids', 'images']);
  /** Shortened questions by group, from the current table. */
  readonly #questions = new Map<string, string>();
  #instruction: { readonly table: RolloutTable; readonly groups: number; readonly text: string } | null = null;

  constructor(file: IndexedFile, { tokenizer, rewards = null }: ReaderOptions) {
    this.index = new RolloutIndex(file, rewards);
    this.#tokenizer = tokenizer;
  }

  table(): Promise<RolloutTable> {
    return this.index.refresh();
  }

  /** The record of a row. Throws ViewRequestError if its line is broken. */
  async record(table: RolloutTable, row: number): Promise<Fields> {
    let text = '';
    await this.index.lines(table, [row], (_, line) => void (text = line.toString('utf8')));
    return parsedRecord(text);
  }

  async records(table: RolloutTable, rows: readonly number[]): Promise<Map<number, Fields>> {
    const found = new Map<number, Fields>();
    await this.index.lines(table, rows, (row, line) => void found.set(row, parsedRecord(line.toString('utf8'))));
    return found;
  }

  /** Lines of the table for people, in the order of the rows. */
  async rolloutLines(table: RolloutTable, rows: readonly number[]): Promise<RolloutLine[]> {
    const questions = await this.questions(table, rows);
    const [group, stop, error, task] = [table.name('group'), table.name('stop'), table.name('error'), table.name('task')];
    return rows.map((row) => {
      const { reward, turns, tokens } = table.figures(row);
      const [groupId, index] = [group(row)!, table.index(row)];
      return {
        rollout_id: `${groupId}/${index}`,
        group: groupId,
        index,
        reward,
        stop: stop(row) ?? '',
        turns,
        tokens,
        error: error(row),
        task: task(row),
        metrics: table.metrics(row),
        question: questions.get(groupId) ?? '',
      };
    });
  }

  /** Questions by group, without the instructions that all rows begin with, shortened. */
  async questions(table: RolloutTable, rows: readonly number[]): Promise<ReadonlyMap<string, string>> {
    const instruction = await this.#instructionOf(table);
    const group = table.name('group');
    const missing = new Map<string, number>();
    for (const row of rows) if (!this.#questions.has(group(row)!)) missing.set(group(row)!, row);
    if (this.#questions.size + missing.size > MOST_QUESTIONS) this.#questions.clear();
    const wanted = this.#questions.size === 0 ? new Map(rows.map((row) => [group(row)!, row])) : missing;
    for (const [row, text] of await this.#prompts(table, [...wanted.values()])) {
      const own = text.startsWith(instruction) ? text.slice(instruction.length) : text;
      this.#questions.set(group(row)!, shortened(own.trim()));
    }
    return this.#questions;
  }

  /** The common beginning of the prompts of several rows. Questions that were read with another one are dropped. */
  async #instructionOf(table: RolloutTable): Promise<string> {
    const known = this.#instruction;
    if (known?.table === table && (known.groups >= SAMPLED_ROWS || known.groups === 0)) return known.text;
    const group = table.name('group');
    const sample = new Map<string, number>();
    let seen = 0;
    for (const row of table.rows) {
      if (sample.size === SAMPLED_ROWS || ++seen > SAMPLED_ROLLOUTS) break;
      if (!sample.has(group(row)!)) sample.set(group(row)!, row);
    }
    if (known?.table === table && known.groups === sample.size) return known.text;
    const texts = [...(await this.#prompts(table, [...sample.values()])).values()];
    const text = texts[0]?.slice(0, instructionLength(texts)) ?? '';
    if (known?.table !== table || known.text !== text) this.#questions.clear();
    this.#instruction = { table, groups: sample.size, text };
    return text;
  }

  /** The whole questions by row. */
  async #prompts(table: RolloutTable, rows: readonly number[]): Promise<Map<number, string>> {
    const tokenizer = rows.length === 0 ? null : await this.#tokenizer();
    const texts = new Map<number, string>();
    await this.index.lines(table, rows, (row, line) => void texts.set(row, this.#promptText(line, tokenizer)), { mostBytes: QUESTION_BYTES });
    return texts;
  }

  #promptText(line: Buffer, tokenizer: ModelTokenizer | null): string {
    const finder = this.#finder;
    finder.find(line, 0, line.length);
    const record = { prompt: finder.json(0), prompt_length: finder.json(1), ids: finder.json(2), images: finder.json(3) };
    return questionOf(promptOf(record, tokenizer));
  }
}

/** Only the beginning, in which line feeds are spaces. */
function shortened(text: string): string {
  const start = text.slice(0, 2 * QUESTION_CHARACTERS).replace(/\s+/g, ' ');
  return start.length > QUESTION_CHARACTERS ? `${start.slice(0, QUESTION_CHARACTERS - 1).toWellFormed()}…` : start;
}

/** Throws ViewRequestError for a line that is not an object. Numbers that JSON lacks, as Python writes them, become null. */
export function parsedRecord(text: string): Fields {
  return flatFields(fieldsOf(parsedLine(text)));
}

function parsedLine(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return JSON.parse(withoutNonFinite(text));
    } catch (cause) {
      throw new ViewRequestError(400, 'The line of the rollout is damaged: it is not JSON. Look at the file of the run.', { cause });
    }
  }
}

/** A value that is nested too deeply to be written as JSON again becomes a remark. */
export function flatFields(record: Fields): Fields {
  const deep = Object.keys(record).filter((name) => isDeeperThan(record[name], MOST_LEVELS));
  return deep.length === 0
    ? record
    : { ...record, ...Object.fromEntries(deep.map((name) => [name, `(nested more than ${MOST_LEVELS} levels deep)`])) };
}
