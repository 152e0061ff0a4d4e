/** Measures supervised rows by the tokenizer of the model's folder, before a server or a worker starts. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import type { Environment } from '../../core/environment.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { assertInVocabulary } from '../../trainer/sources/assert-in-vocabulary.ts';
import { demonstrationOf, type DemonstrationTokenizer } from '../../trainer/sources/demonstration.ts';
import type { Demonstrations, ReadDemonstration } from '../../trainer/sources/read-demonstrations.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { openDemonstrationTokenizer } from './demonstration-tokenizer.ts';
import { longestRollout } from './open-policy-servers.ts';

export interface LengthOptions {
  /** Environment variables, which say where the hub's cache is. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Gets a line about rows that are left out. */
  readonly warn: (line: string) => void;
  /** Tokenises every row, however long that takes, because nothing tokenises them later. @default false */
  readonly isDry?: boolean;
  readonly signal: AbortSignal;
}

/** After this time, only a row that fits is looked for. */
const LIMIT_MS = 5_000;
/** The tokens that a template adds to a message or to a segment, with an ample margin. */
const TEMPLATE_TOKENS = 256;

/**
 * Throws ConfigError if every row is too long, and warns of some. Says nothing where only the server knows the lengths: pictures, a model that is not on this machine, a
 * template of the server's own.
 */
export async function measureDemonstrations(
  rows: Demonstrations,
  { config, environment }: { readonly config: TrainingConfig; readonly environment: Environment },
  { variables, warn, isDry = false, signal }: LengthOptions,
): Promise<void> {
  const { model, policy, sft } = config;
  const folder = modelFolder(model.path, variables);
  if (sft.images !== null || !existsSync(join(folder, 'tokenizer.json'))) return;
  const isStarted = (policy.embedded ?? policy.launch) !== null && Object.keys(environment.roles ?? {}).length === 0;
  const { contextLength, vocabularySize: vocabulary } = modelFacts(folder);
  const limit = lengthLimit(sft, [contextLength, isStarted ? longestRollout(environment, folder) : null], warn);
  if (limit === Infinity && !isDry) return;
  const tokenizer = await openDemonstrationTokenizer(folder, environment.turnFormat);
  for (const part of [rows.training, rows.validation]) {
    const lengths = await lengthsOf(part, { tokenizer, limit, isDry, vocabulary, signal }).catch((error: unknown) => {
      // A running server may have another template.
      if (policy.baseUrl === null || !(error instanceof ConfigError)) throw error;
      return null;
    });
    if (lengths === null || lengths.beyond === 0) continue;
    if (lengths.beyond === part.length) throw allTooLongError(limit, sft);
    if (lengths.isWhole) warn(leftOutText(lengths.beyond, part.length, limit));
  }
}

interface Lengths {
  /** Rows that are longer than the limit, of those that were looked at. */
  readonly beyond: number;
  readonly isWhole: boolean;
}

interface Measuring extends Required<Pick<LengthOptions, 'isDry' | 'signal'>> {
  readonly tokenizer: DemonstrationTokenizer;
  /** In tokens. */
  readonly limit: number;
  /** Number of token ids; null if it is unknown. */
  readonly vocabulary: number | null;
}

/** The longest rows come first, until the time is over. */
async function lengthsOf(rows: readonly ReadDemonstration[], { tokenizer, limit, isDry, vocabulary, signal }: Measuring): Promise<Lengths> {
  const sorted = rows.map((row) => ({ row, most: mostTokens(row) })).toSorted((a, b) => b.most - a.most);
  const endMs = isDry ? Infinity : performance.now() + LIMIT_MS;
  let [first, last, beyond] = [0, sorted.length, 0];
  let hasFitting = false;
  while (first < last) {
    signal.throwIfAborted();
    const isLate = performance.now() >= endMs;
    if (isLate && hasFitting) return { beyond, isWhole: false };
    const { row, most } = isLate ? sorted[--last]! : sorted[first++]!;
    const ids = most <= limit && !isDry ? [] : (await demonstrationOf(row, tokenizer)).ids;
    assertInVocabulary(ids, vocabulary, row.place);
    if (ids.length <= limit) hasFitting = true;
    else beyond += 1;
  }
  return { beyond, isWhole: true };
}

/** A token has at least one byte, so most rows need no tokenizer. */
function mostTokens({ row }: ReadDemonstration): number {
  if ('token_ids' in row) return row.token_ids.length;
  const parts = 'messages' in row ? [row.messages] : [row.prompt, row.completion ?? [], row.segments ?? []];
  const count = parts.reduce((sum, part) => sum + (typeof part === 'string' ? 1 : part.length), 1);
  return Buffer.byteLength(JSON.stringify(parts)) + count * TEMPLATE_TOKENS;
}

/** In tokens; Infinity if neither the settings nor a window sets one. Warns of a setting beyond the windows. */
export function lengthLimit({ maxLength }: TrainingConfig['sft'], windows: readonly (number | null)[], warn: (line: string) => void): number {
  const limit = Math.min(...[maxLength, ...windows].map((tokens) => tokens ?? Infinity));
  if (maxLength !== null && maxLength > limit)
    warn(`sft.max_length is ${maxLength}, but the window is ${plural(limit, 'token')}, so that rows may have that many`);
  return limit;
}

export function leftOutText(beyond: number, rows: number, limit: number): string {
  return `left out ${beyond} of ${plural(rows, 'supervised row')}: longer than ${plural(limit, 'token')}`;
}

export function allTooLongError(limit: number, { maxLength }: TrainingConfig['sft']): ConfigError {
  return new ConfigError(
    `Every supervised row is longer than ${plural(limit, 'token')}; ${limit === maxLength ? 'raise sft.max_length or ' : ''}shorten the rows`,
  );
}
