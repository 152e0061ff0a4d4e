/** Reads supervised rows from JSONL and Parquet files and holds some of them out. Rows of DDAI's files are conversations, too. */
import { ConfigError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import { objectOf, readRecords } from '../../files/records.ts';
import { type DemonstrationRow, type MessagesRow, MessagesRowSchema, PromptRowSchema, TokensRowSchema } from '../../schemas/demonstration-row.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import { parseRowV1 } from '../../schemas/messages-v1.ts';
import { nestingProblem } from '../../schemas/nesting.ts';
import { parseWire } from '../../schemas/results.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { systemText } from '../../files/system-text.ts';
import { holdOutQuestions } from './hold-out-questions.ts';

/** A row and where it was read, for messages. */
export interface ReadDemonstration {
  readonly row: DemonstrationRow;
  /** `data.jsonl:12` */
  readonly place: string;
}

export interface Demonstrations {
  readonly training: readonly ReadDemonstration[];
  /** Rows that are never trained on. */
  readonly validation: readonly ReadDemonstration[];
}

/** The rows of `[sft]`. Throws ConfigError for a file that cannot be read, an invalid row, or too few rows. */
export async function readDemonstrations({ sft, seed }: Pick<TrainingConfig, 'sft' | 'seed'>): Promise<Demonstrations> {
  const paths = sft.data === null ? [] : [sft.data].flat();
  const rows = (await Promise.all(paths.map(readRows))).flat();
  const validation = sft.validation === null ? [] : await readRows(sft.validation);
  const count = sft.heldOut < 1 ? Math.round(sft.heldOut * rows.length) : sft.heldOut;
  if (count >= rows.length)
    throw new ConfigError(`sft.held_out = ${sft.heldOut} leaves no row of ${paths.join(', ')} to train on (rows: ${rows.length}); lower it`);
  if (count === 0) return { training: rows, validation };
  const divided = holdOutQuestions(rows, count, Random.fromSeed(seed).fork('held-out demonstrations'));
  if (divided.validation.length === 0)
    throw new ConfigError(
      `sft.held_out = ${sft.heldOut} divides questions, but all ${rows.length} rows of ${paths.join(', ')} answer one (by group_id, else example_id, else the prompt); give rows of other questions, or sft.validation`,
    );
  return divided;
}

async function readRows(path: string): Promise<ReadDemonstration[]> {
  const rows: ReadDemonstration[] = [];
  try {
    for await (const { fields, place } of objectsIn(path)) {
      const parsed = parseRow(fields);
      if ('problem' in parsed) throw new ConfigError(`${place} is not a supervised row: ${parsed.problem} (docs/supervised.md describes the rows)`);
      rows.push({ row: parsed.value, place });
    }
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(`Cannot read the supervised rows ${path}: ${systemText(cause)}`, { cause });
  }
  if (rows.length === 0) throw new ConfigError(`${path} has no supervised rows; give a file with at least one`);
  return rows;
}

/** The rows of a file and where they are. */
async function* objectsIn(path: string): AsyncGenerator<{ readonly fields: Fields; readonly place: string }, void> {
  for await (const record of readRecords(path, { remedy: 'name a file of supervised rows (docs/supervised.md)', skipsBlankLines: true })) {
    const { text, number } = record;
    yield { fields: objectOf(record), place: text === null ? `${path}, row ${number}` : `${path}:${number}` };
  }
}

type Fields = Readonly<Record<string, unknown>>;

function parseRow(given: Fields): { readonly value: DemonstrationRow } | { readonly problem: string } {
  const tooDeep = nestingProblem(given);
  if (tooDeep !== null) return { problem: tooDeep };
  const row = withoutNulls(given) as Fields;
  const keys = new Set(Object.keys(row));
  if (keys.has('format_version') || (keys.has('uid') && keys.has('messages'))) return parseV1(given);
  // Checked before the schema: in many data sets a message with calls has a content of null.
  const calling = callingMessage(row);
  if (calling !== null)
    return { problem: `${calling} has tool_calls; write the calls into content as the model writes them, or give token ids (vf-export --sft)` };
  const forms = ['token_ids', 'messages', 'prompt'].filter((name) => keys.has(name));
  if (forms.length > 1) return { problem: `it has both ${forms.join(' and ')}, which are rows of their own; keep one of them` };
  if (keys.has('token_ids')) return checkedTokens(parseWire(TokensRowSchema, row));
  if (keys.has('messages')) return parseWire(MessagesRowSchema, row);
  if (!keys.has('prompt'))
    return { problem: `it has none of messages, prompt and token_ids, but ${[...keys].slice(0, 8).join(', ') || 'no columns'}` };
  if (keys.has('segments') === keys.has('completion')) return { problem: 'in addition to prompt it needs either segments or completion' };
  return parseWire(PromptRowSchema, row);
}

/** Fields that are null count as missing, because in Parquet every row and every message has every column. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.some(isObject) ? value.map(withoutNulls) : value;
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).flatMap(([name, each]) => (each === null ? [] : [[name, withoutNulls(each)]])));
}

/** A row of DDAI's files. */
function parseV1(fields: Readonly<Record<string, unknown>>): { readonly value: MessagesRow } | { readonly problem: string } {
  const row = parseRowV1(fields);
  if (typeof row === 'string') return { problem: row };
  const messages = row.messages.map(({ role, content, weight }) => ({
    role,
    content: typeof content === 'string' ? content : [...content],
    ...(weight === undefined ? {} : { weight }),
  }));
  return { value: { messages, example_id: row.uid } };
}

/** The first message with tool calls, such as `messages[1]`; null if there is none. */
function callingMessage(row: object): string | null {
  for (const key of ['messages', 'prompt', 'completion']) {
    const list = fieldsOf(row)[key];
    if (!Array.isArray(list)) continue;
    const at = list.findIndex((message) => {
      const calls = fieldsOf(message)['tool_calls'];
      return Array.isArray(calls) && calls.length > 0;
    });
    if (at >= 0) return `${key}[${at}]`;
  }
  return null;
}

type ParsedTokens = ReturnType<typeof parseWire<typeof TokensRowSchema>>;

function checkedTokens(parsed: ParsedTokens): ParsedTokens {
  if ('problem' in parsed) return parsed;
  const { token_ids: ids, loss_mask: mask, weights } = parsed.value;
  if (mask === undefined && weights === undefined) return { problem: 'in addition to token_ids it needs loss_mask or weights' };
  for (const [name, list] of Object.entries({ loss_mask: mask, weights })) {
    if (list !== undefined && list.length !== ids.length) return { problem: `${name} has ${list.length} items for ${ids.length} token_ids` };
  }
  // A weight of 0 in both is the same token without a loss; a mask of 1 leaves the weight to `weights`.
  const odd = weights === undefined || mask === undefined ? -1 : weights.findIndex((weight, i) => weight > 0 !== (mask[i] === 1));
  if (odd >= 0) return { problem: `weights[${odd}] is ${weights![odd]} where loss_mask[${odd}] is ${mask![odd]}; make them agree, or leave one out` };
  const { images = [] } = parsed.value;
  const lost = images.findIndex(
    ({ offset, length }) => offset + length > ids.length || (weights ?? mask)!.slice(offset, offset + length).some((one) => one > 0),
  );
  if (lost >= 0) return { problem: `images[${lost}] is not among the tokens without a loss` };
  // Checked here, before any server starts. The first token has no prediction, so it cannot be learned.
  if (!(weights ?? mask)!.some((weight, i) => i > 0 && weight > 0)) return { problem: 'it has no token to learn: give it a loss_mask with a 1' };
  return parsed;
}
