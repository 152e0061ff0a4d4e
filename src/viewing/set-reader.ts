/** The rollouts of one set of a run: its table, and the whole of one rollout. */
import { instructionLength } from '../core/instruction-length.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { unpackFloat64, unpackInt32 } from '../schemas/packed-array.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import { LineIndex } from './line-index.ts';
import { askedText, shortened } from './question-text.ts';
import { askedOf, messagesOf, numberOf, partsOf, textOf } from './recorded-parts.ts';
import { RolloutIndex, type RowQuery } from './rollout-index.ts';
import { askedPath, type FoundSet } from './rollout-sets.ts';
import { tokenTexts } from './run-tokenizer.ts';
import { findText } from './text-search.ts';
import type { Message, RolloutDetail, RolloutLine, RolloutPage, RolloutQuery, RolloutTokens } from './view-wire.ts';
import { ViewRequestError } from './view-problem.ts';

type Fields = Readonly<Record<string, unknown>>;

const MOST_ROWS = 500;
const BINS = 20;
/** Rows whose prompts show what all have in common. */
const COMPARED_PROMPTS = 8;

export class SetReader {
  readonly set: FoundSet;
  readonly index: RolloutIndex;
  readonly #tokens: LineIndex | null;
  readonly #asked: LineIndex;
  readonly #openTokenizer: () => Promise<ModelTokenizer | null>;
  /** Characters of instructions before each question; null until they were counted. */
  #instructions: number | null = null;

  constructor(set: FoundSet, openTokenizer: () => Promise<ModelTokenizer | null>) {
    this.set = set;
    this.index = new RolloutIndex(set.path);
    this.#tokens = set.kind === 'results' ? new LineIndex(set.path.replace(/results\.jsonl$/, 'tokens.jsonl')) : null;
    this.#asked = new LineIndex(askedPath(set));
    this.#openTokenizer = openTokenizer;
  }

  async page(query: Omit<RolloutQuery, 'run' | 'set'>, signal?: AbortSignal): Promise<RolloutPage> {
    await this.index.refresh();
    const { text, from = 0, count = 100, ...rest } = query;
    const filters: RowQuery = text === undefined || text === '' ? rest : { ...rest, among: await findText(this.index, text, signal) };
    const rows = this.index.query(filters);
    return {
      total: this.index.size,
      matched: rows.length,
      rows: await this.lines(rows.slice(from, from + Math.min(count, MOST_ROWS))),
      metrics: this.index.metricNames,
      stops: this.index.stops,
      tasks: this.index.tasks,
      histogram: histogram(rows.map((row) => this.index.reward(row)).filter((reward) => reward !== null)),
    };
  }

  /** Rows of the index with their questions. */
  async lines(rows: readonly number[]): Promise<RolloutLine[]> {
    const lines: RolloutLine[] = [];
    for (const row of rows) {
      const record = await this.#record(row);
      lines.push({ ...this.index.row(row), question: await this.#question(record) });
    }
    return lines;
  }

  /** The rows of a group, in the order of their indices. */
  group(group: string): number[] {
    return this.index.query({ group }).toSorted((a, b) => this.index.row(a).index - this.index.row(b).index);
  }

  /** A rollout without its advantage. Throws ViewRequestError where the set lacks it. */
  async rollout(group: string, index: number): Promise<Omit<RolloutDetail, 'advantage'>> {
    await this.index.refresh();
    const row = this.#find(group, index);
    const record = await this.#record(row);
    const asked = await this.#asked.line(textOf(record['rollout_id']));
    const siblings = await this.lines(this.group(group));
    const error = fieldsOf(record['error']);
    return {
      line: siblings.find((line) => line.index === index)!,
      prompt: await this.#prompt(record),
      parts: partsOf(record),
      answer: record['answer'] ?? null,
      info: record['info'] ?? null,
      error:
        record['error'] === null || record['error'] === undefined
          ? null
          : {
              name: textOf(error['error'] ?? error['type']),
              message: textOf(error['message']),
              phase: error['phase'] === undefined ? null : textOf(error['phase']),
            },
      metric_errors: Object.fromEntries(Object.entries(fieldsOf(record['metric_errors'])).map(([name, why]) => [name, textOf(why)])),
      asked: askedOf(asked === null ? null : fieldsOf(JSON.parse(asked))['asked']),
      facts: factsOf(record),
      siblings,
      has_tokens: this.#tokens === null ? typeof record['ids'] === 'string' : (await this.#tokens.line(textOf(record['rollout_id']))) !== null,
    };
  }

  async tokens(group: string, index: number): Promise<RolloutTokens> {
    await this.index.refresh();
    const record = await this.#record(this.#find(group, index));
    const tokens = this.#tokens === null ? packedTokens(record) : await this.#recordedTokens(record);
    if (tokens === null) throw new ViewRequestError(404, 'No tokens are on file for this rollout: the policy was asked for text.');
    const tokenizer = await this.#openTokenizer();
    const texts = tokenizer === null ? null : tokenTexts(tokenizer, tokens.ids);
    return {
      ...tokens,
      texts,
      problem: texts === null ? 'The tokenizer of the model is not on this machine. Name its directory with --tokenizer DIR.' : null,
    };
  }

  #find(group: string, index: number): number {
    const row = this.index.find(group, index);
    if (row === null) throw new ViewRequestError(404, `${this.set.title} has no rollout ${group}/${index}. Go back to the table.`);
    return row;
  }

  async #record(row: number): Promise<Fields> {
    return fieldsOf(JSON.parse(await this.index.line(row)));
  }

  async #recordedTokens(record: Fields): Promise<Pick<RolloutTokens, 'ids' | 'mask' | 'log_probs' | 'prompt_length'> | null> {
    const line = await this.#tokens!.line(textOf(record['rollout_id']));
    if (line === null) return null;
    const tokens = fieldsOf(JSON.parse(line));
    return {
      ids: tokens['token_ids'] as number[],
      mask: tokens['loss_mask'] as (0 | 1)[],
      log_probs: tokens['logprobs'] as (number | null)[],
      prompt_length: numberOf(tokens['prompt_length']) ?? 0,
    };
  }

  /** Rollouts of training have the prompt's tokens alone. */
  async #prompt(record: Fields): Promise<Message[]> {
    if (record['prompt'] !== undefined) return messagesOf(record['prompt']);
    const text = await this.#promptText(record);
    return text === null ? [] : [{ role: 'prompt', content: [{ type: 'text', text }], tool_calls: [] }];
  }

  async #promptText(record: Fields): Promise<string | null> {
    const ids = unpackInt32(textOf(record['ids']));
    const tokenizer = ids === null ? null : await this.#openTokenizer();
    return tokenizer === null ? null : tokenizer.decode(ids!.slice(0, numberOf(record['prompt_length']) ?? 0), { skipSpecialTokens: false });
  }

  async #question(record: Fields): Promise<string> {
    const text = await this.#asks(record);
    return shortened(text.slice(await this.#instructionLength()));
  }

  async #asks(record: Fields): Promise<string> {
    return record['prompt'] === undefined ? ((await this.#promptText(record)) ?? '') : askedText(record['prompt']);
  }

  async #instructionLength(): Promise<number> {
    if (this.#instructions !== null) return this.#instructions;
    const groups = new Map<string, number>();
    for (const row of this.index.query().slice(0, 50 * COMPARED_PROMPTS)) {
      const { group } = this.index.row(row);
      if (!groups.has(group)) groups.set(group, row);
      if (groups.size === COMPARED_PROMPTS) break;
    }
    const texts: string[] = [];
    for (const row of groups.values()) texts.push(await this.#asks(await this.#record(row)));
    const length = instructionLength(texts);
    if (groups.size === COMPARED_PROMPTS) this.#instructions = length;
    return length;
  }
}

function packedTokens(record: Fields): Pick<RolloutTokens, 'ids' | 'mask' | 'log_probs' | 'prompt_length'> | null {
  const ids = unpackInt32(textOf(record['ids']));
  const targets = unpackInt32(textOf(record['targets']));
  if (ids === null || targets === null) return null;
  const logProbs = record['log_probs'] === undefined ? null : unpackFloat64(textOf(record['log_probs']));
  const mask = Array.from({ length: ids.length }, (): 0 | 1 => 0);
  const log_probs = Array.from({ length: ids.length }, (): number | null => null);
  for (const [i, target] of targets.entries()) {
    mask[target] = 1;
    log_probs[target] = logProbs?.[i] ?? null;
  }
  return { ids: [...ids], mask, log_probs, prompt_length: numberOf(record['prompt_length']) ?? 0 };
}

function histogram(rewards: readonly number[]): RolloutPage['histogram'] {
  if (rewards.length === 0) return null;
  let [low, high] = [Infinity, -Infinity];
  for (const reward of rewards) {
    low = Math.min(low, reward);
    high = Math.max(high, reward);
  }
  const counts = Array.from({ length: BINS }, () => 0);
  for (const reward of rewards) counts[Math.min(BINS - 1, Math.floor(((reward - low) / (high - low || 1)) * BINS))]! += 1;
  return { low, high, counts };
}

function factsOf(record: Fields): RolloutDetail['facts'] {
  const usage = fieldsOf(record['token_usage']);
  const timing = fieldsOf(record['timing']);
  const facts: [string, unknown][] = [
    ['stop', record['stop_condition']],
    ['turns', record['num_turns']],
    ['tokens written', usage['output_tokens']],
    ['tokens read', usage['input_tokens']],
    ['seconds', numberOf(timing['total'])?.toFixed(2)],
    ['model', record['model']],
    ['policy version', record['policy_version']],
    ['attempts', record['attempts']],
    ['seed', record['seed']],
    ['clean-up failed', record['clean_up_error']],
  ];
  return facts.flatMap(([name, value]) => (value === undefined || value === null ? [] : [{ name, value: textOf(value) }]));
}
