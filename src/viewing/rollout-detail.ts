/** One rollout with its texts, references, figures and tokens. */
import { recordedProblem } from '../schemas/log-prob-range.ts';
import { unpackFloat64, unpackInt32 } from '../schemas/packed-array.ts';
import { type Fields, factsOf, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { OpenRun } from './open-run.ts';
import { branchesOf, branchRange } from './branch-parts.ts';
import { askedOf, partsOf, promptOf, withTurnAdvantages } from './record-parts.ts';
import { parsedRecord } from './rollout-reader.ts';
import type { TableFigures } from './rollout-table.ts';
import { tokenTexts } from './run-tokenizers.ts';
import { NO_CREDIT, stepAdvantages } from './step-advantages.ts';
import { ViewRequestError } from './view-problem.ts';
import type { RolloutDetail, RolloutPlace, RolloutTokens, TokensPlace } from './view-wire.ts';

export async function rolloutDetail(run: OpenRun, place: RolloutPlace): Promise<RolloutDetail> {
  const { set, reader, table, row } = await run.place(place);
  const record = await reader.record(table, row);
  const group = table.name('group');
  const siblings = [...table.rows].filter((other) => group(other) === place.group).toSorted((a, b) => table.index(a) - table.index(b));
  const lines = await reader.rolloutLines(table, siblings);
  const line = lines[siblings.indexOf(row)]!;
  const needsTokenizer = typeof record['ids'] === 'string';
  const tokenizer = needsTokenizer ? (await run.tokenizer()).tokenizer : null;
  // The file of the calls costs no more than them.
  const asked = await run
    .askedLines(set)
    .line(line.rollout_id)
    .catch(() => null);
  const credit = set.set.kind === 'step' ? (await stepAdvantages(run, set, table)).of(row) : NO_CREDIT;
  return {
    line,
    prompt: promptOf(record, tokenizer),
    parts: withTurnAdvantages(partsOf(record), credit),
    answer: record['answer'] ?? null,
    info: record['info'] ?? null,
    error: errorOf(record),
    metric_errors: Object.fromEntries(Object.entries(fieldsOf(record['metric_errors'])).map(([name, why]) => [name, String(why)])),
    asked: asked === null ? [] : askedOf(parsedRecord(asked)),
    facts: factsOfRollout(record, table.figures(row)),
    siblings: lines,
    has_tokens: await hasTokens(run, record),
    branches: branchesOf(record, { tokenizer, credit }),
    ...credit,
  };
}

/** Throws ViewRequestError if no tokens are recorded. */
export async function rolloutTokens(run: OpenRun, place: TokensPlace): Promise<RolloutTokens> {
  const { reader, table, row } = await run.place(place);
  const tokens =
    run.found.kind === 'training' ? trainedTokens(await reader.record(table, row), place.branch ?? 0) : await evaluatedTokens(run, place);
  if (tokens === null)
    throw new ViewRequestError(
      404,
      `${run.found.kind === 'evaluation' ? 'tokens.jsonl has no line for' : 'No tokens are recorded for'} ${place.branch ? `branch ${place.branch} of ` : ''}${place.group.slice(0, 100)}/${place.index}. Policies behind a chat API give none, and old steps of training lose theirs.`,
    );
  const { tokenizer, problem } = await run.tokenizer();
  const foreign = recordedProblem(tokens.ids, tokens.log_probs);
  if (foreign !== null) return { ...tokens, texts: null, problem: `The file has ${foreign}: somebody changed it` };
  return { ...tokens, texts: tokenizer === null ? null : tokenTexts(tokenizer, tokens.ids), problem };
}

type Tokens = Pick<RolloutTokens, 'ids' | 'mask' | 'log_probs' | 'prompt_length'>;

async function evaluatedTokens(run: OpenRun, { group, index, branch }: TokensPlace): Promise<Tokens | null> {
  const line = await run.tokenLines().line(`${group}/${index}`, branch);
  if (line === null) return null;
  const record = parsedRecord(line);
  const [ids, mask, logProbs] = ['token_ids', 'loss_mask', 'logprobs'].map((name) => listOf(record[name])) as [unknown[], unknown[], unknown[]];
  if (!ids.every(isTokenId) || mask.length !== ids.length || logProbs.length !== ids.length)
    throw new ViewRequestError(
      400,
      `tokens.jsonl is damaged: the line of rollout ${group.slice(0, 100)}/${index} has no token_ids, loss_mask and logprobs of one length.`,
    );
  return {
    ids,
    mask: ids.map((_, i) => (mask[i] === 1 ? 1 : 0)),
    log_probs: ids.map((_, i) => numberOf(logProbs[i])),
    prompt_length: numberOf(record['prompt_length']) ?? 0,
  };
}

function trainedTokens(record: Fields, branch: number): Tokens | null {
  const whole = wholeTokens(record);
  if (whole === null || (branch === 0 && record['branches'] === undefined)) return whole;
  const range = branchRange(record, branch);
  if (range === null || range.end === range.start) return null;
  const own = <T>(list: readonly T[]) => list.slice(range.start, range.end);
  return { ids: own(whole.ids), mask: own(whole.mask), log_probs: own(whole.log_probs), prompt_length: range.promptLength };
}

function wholeTokens(record: Fields): Tokens | null {
  const ids = unpackInt32(textOf(record['ids']) ?? '');
  const targets = unpackInt32(textOf(record['targets']) ?? '');
  const known = typeof record['log_probs'] === 'string' ? unpackFloat64(record['log_probs']) : null;
  if (ids === null || targets === null || ids.length === 0) return null;
  const mask = Array.from<0 | 1>({ length: ids.length }).fill(0);
  const logProbs = Array.from<number | null>({ length: ids.length }).fill(null);
  for (const [i, at] of targets.entries()) {
    if (at < 0 || at >= ids.length) continue;
    mask[at] = 1;
    logProbs[at] = numberOf(known?.[i]);
  }
  return { ids: [...ids], mask, log_probs: logProbs, prompt_length: numberOf(record['prompt_length']) ?? 0 };
}

function isTokenId(id: unknown): id is number {
  return Number.isSafeInteger(id) && (id as number) >= 0;
}

async function hasTokens(run: OpenRun, record: Fields): Promise<boolean> {
  if (run.found.kind === 'training') return typeof record['ids'] === 'string' && record['ids'] !== '';
  const { kind } = fieldsOf((await run.settings.readable())['policy']);
  return record['error'] === null && (kind === 'tokens' || kind === undefined);
}

function errorOf(record: Fields): RolloutDetail['error'] {
  if (record['error'] === null || record['error'] === undefined) return null;
  const { error, type, message, error_chain_str: chain, phase } = fieldsOf(record['error']);
  return { name: textOf(error) ?? textOf(type) ?? 'Error', message: textOf(chain) ?? textOf(message) ?? '', phase: textOf(phase) };
}

function factsOfRollout(record: Fields, { isUnpaid }: Pick<TableFigures, 'isUnpaid'>): RolloutDetail['facts'] {
  const { input_tokens: input, output_tokens: output, cached_tokens: cached } = fieldsOf(record['token_usage']);
  const timing = fieldsOf(record['timing']);
  const seconds = (value: unknown) => numberOf(value)?.toFixed(2);
  return factsOf({
    'policy version': record['policy_version'],
    model: record['model'],
    role: record['role'],
    turns: record['num_turns'],
    'input tokens': input,
    'output tokens': output,
    'cached tokens': cached,
    'length cut': record['is_truncated'] === true ? 'yes' : null,
    'context cut': record['is_cut'] === true ? 'yes' : null,
    'reward to come': isUnpaid ? 'yes' : null,
    'tokens left out': record['thinned'] === true ? 'yes, of an old step' : null,
    'turn rewards': shownRewards(record),
    attempts: record['attempts'],
    seed: record['seed'],
    'seconds in all': seconds(timing['total']),
    'seconds of the model': seconds(fieldsOf(timing['model'])['duration']),
    'seconds of the environment': seconds(fieldsOf(timing['env'])['duration']),
    'seconds of scoring': seconds(fieldsOf(timing['scoring'])['duration']),
    'guessed stops': record['guessed_stops'],
    'ignored stops': record['ignored_stops'],
    'cut observations': record['cut_observations'] === 0 ? null : record['cut_observations'],
    'repeated requests': record['repeats'],
    'refused requests': refusedText(fieldsOf(record['refused'])),
    'error of the clean-up': record['clean_up_error'],
    'tools offered': listOf(record['tools'])
      .map((tool) => textOf(fieldsOf(tool)['name']))
      .join(', '),
  });
}

/** `2; the first: …`; null without any. */
function refusedText({ count, first }: Fields): string | null {
  return numberOf(count) === null ? null : `${String(count)}; the first: ${textOf(first) ?? ''}`;
}

/** Null if the rollout has none. They are next to the turns too, unless several turns are one message. */
function shownRewards(record: Fields): string | null {
  const rewards = listOf(record['turn_rewards']).map(numberOf);
  return rewards.length === 0 ? null : rewards.map((reward) => reward ?? 'none').join(', ');
}
