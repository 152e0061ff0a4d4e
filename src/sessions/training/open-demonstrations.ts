/** Tokenises the supervised rows of a run: with the policy that samples, or on this machine if no server is needed. */
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { modelFacts } from '../../files/model-facts.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { checkDemonstrations } from './check-demonstrations.ts';
import { picturesOf } from './demonstration-pictures.ts';
import { openDemonstrationTokenizer } from './demonstration-tokenizer.ts';
import { allTooLongError, leftOutText, lengthLimit, type LengthOptions, measureDemonstrations } from './supervised-lengths.ts';
import { assertInVocabulary } from '../../trainer/sources/assert-in-vocabulary.ts';
import { demonstrationOf, type DemonstrationTokenizer } from '../../trainer/sources/demonstration.ts';
import { type Demonstrations, type ReadDemonstration, readDemonstrations } from '../../trainer/sources/read-demonstrations.ts';
import { countTrainedPrompts } from '../../trainer/sources/hold-out-questions.ts';
import { countText, plural } from '../../reports/text/number-text.ts';
import type { DemonstrationSet, TrainingSession } from '../../trainer/training-session.ts';
import type { Trajectory } from '../../trainer/trajectory.ts';

/** Rows tokenised at a time; a server tokenises each piece of a row by itself. */
const CONCURRENT_ROWS = 16;

export interface OpenedDemonstrations {
  readonly tokenise: (session: TrainingSession, signal: AbortSignal) => Promise<DemonstrationSet>;
}

export type DemonstrationOptions = LengthOptions;

/** Reads, checks and measures the rows of `[sft]`. Throws ConfigError for a row that cannot be trained on, and if all are too long. */
export async function openDemonstrations(
  config: TrainingConfig,
  environment: Environment,
  given: DemonstrationOptions,
): Promise<OpenedDemonstrations> {
  const rows = await readDemonstrations(config);
  const said = new Set<string>();
  // Rows are measured again by the tokens of the session.
  const warn = (line: string) => {
    if (!said.has(line)) given.warn(line);
    said.add(line);
  };
  const trained = countTrainedPrompts(rows);
  if (trained > 0)
    warn(
      `${countText(trained)} of the ${plural(rows.validation.length, 'validation row')} ${trained === 1 ? 'has' : 'have'} the prompt of a row that is trained on, so that the validation loss does not measure generalisation`,
    );
  const options = { ...given, warn };
  await checkDemonstrations(rows, { config, environment }, options);
  await measureDemonstrations(rows, { config, environment }, options);
  let done: Promise<DemonstrationSet> | null = null;
  return {
    tokenise: (session, signal) => {
      // Every session has the same tokenizer.
      done ??= tokenised(rows, { ...options, config, environment, session, signal });
      done.catch(() => (done = null));
      return done;
    },
  };
}

interface Tokenising extends DemonstrationOptions {
  readonly config: TrainingConfig;
  readonly environment: Environment;
  readonly session: TrainingSession;
}

async function tokenised(rows: Demonstrations, given: Tokenising): Promise<DemonstrationSet> {
  const { config, environment, session, variables, signal } = given;
  const { contextLength } = modelFacts(modelFolder(config.model.path, variables));
  // The same with and without a server, whose window may be smaller than the model's.
  const windows = [contextLength, session.client.capabilities.maxModelLen, session.backend.capabilities.maxTokens];
  const limit = lengthLimit(config.sft, windows, given.warn);
  const pictures = await picturesOf(config, environment, session.client.capabilities.imageTokens ?? null);
  if (session.isServed === false) {
    const tokenizer = { ...(await openDemonstrationTokenizer(config.model.path, environment.turnFormat)), ...pictures };
    return { training: await within(rows.training, tokenizer, limit, given), validation: await within(rows.validation, tokenizer, limit, given) };
  }
  await using lease = await session.client.lease(signal);
  if (lease.kind !== 'tokens') throw new ConfigError('Supervised rows need a policy by token ids; use a vLLM server or the embedded engine');
  const { closingTokenId = null, tokenizerHash } = session.client.capabilities;
  const tokenizer: DemonstrationTokenizer = {
    render: (messages, options) => lease.render(messages, options),
    renderNext: (history, next, options) => lease.renderNext(history, next, options),
    encode: (text) => lease.encode(text),
    closingTokenId,
    tokenizerHash,
    turnFormat: environment.turnFormat,
    ...pictures,
  };
  return { training: await within(rows.training, tokenizer, limit, given), validation: await within(rows.validation, tokenizer, limit, given) };
}

/** The trajectories of the rows that fit into the model's window. */
async function within(
  rows: readonly ReadDemonstration[],
  tokenizer: DemonstrationTokenizer,
  limit: number,
  { config, variables, warn, signal }: Tokenising,
): Promise<readonly Trajectory[]> {
  const made: Trajectory[] = [];
  for (let at = 0; at < rows.length; at += CONCURRENT_ROWS) {
    signal.throwIfAborted();
    made.push(...(await Promise.all(rows.slice(at, at + CONCURRENT_ROWS).map((row) => demonstrationOf(row, tokenizer)))));
  }
  const { vocabularySize: vocabulary } = modelFacts(modelFolder(config.model.path, variables));
  for (const { ids, groupId: place } of made) assertInVocabulary(ids, vocabulary, place);
  const kept = made.filter(({ ids }) => ids.length <= limit);
  if (rows.length > 0 && kept.length === 0) throw allTooLongError(limit, config.sft);
  if (kept.length < made.length) warn(leftOutText(made.length - kept.length, made.length, limit));
  return kept;
}
