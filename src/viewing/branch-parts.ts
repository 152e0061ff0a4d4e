/** The branches of a rollout of several sequences, from its line of results or of a training step. */
import { packArray, unpackInt32 } from '../schemas/packed-array.ts';
import { segmentMessages } from '../schemas/segment-messages.ts';
import { stretches } from '../schemas/turn-columns.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import { type Fields, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import { partsOf, promptOf, withTurnAdvantages } from './record-parts.ts';
import type { RolloutCredit } from './credit-wire.ts';
import type { RolloutBranch } from './view-wire.ts';

/** A line has as many as its agent made; more are not shown. */
const MOST_BRANCHES = 1000;

/** Empty for a rollout of one. */
export function branchesOf(
  record: Fields,
  { tokenizer, credit }: { readonly tokenizer: ModelTokenizer | null; readonly credit: RolloutCredit },
): RolloutBranch[] {
  const branches = listOf(record['branches']).slice(0, MOST_BRANCHES).map(fieldsOf);
  if (branches.length < 2) return [];
  const own = typeof record['ids'] === 'string' ? trainedParts(record, branches, tokenizer) : playedParts(record, branches);
  let turn = 0;
  return branches.map((branch, i) => {
    const { written, turns, tokens, sampled } = own[i]!;
    const from = turn;
    turn += turns;
    const rewards = listOf(record['turn_rewards']).slice(from, turn);
    const advantages = credit.turn_advantages?.slice(from, turn) ?? null;
    return {
      parent: earlier(branch['parent'], i),
      fork: forkOf(branch['fork']),
      role: textOf(branch['role']),
      reward: numberOf(branch['reward']),
      turns,
      tokens,
      sampled,
      begins_with: beginsWith(branch['begins_with'], i),
      prompt: promptOf(written, tokenizer),
      parts: withTurnAdvantages(partsOf({ ...written, turn_rewards: rewards }, true), { ...credit, turn_advantages: advantages }),
      tools: branch['tools'] === undefined ? null : listOf(branch['tools']).map((tool) => textOf(fieldsOf(tool)['name']) ?? ''),
    };
  });
}

/** Where the tokens of a branch lie among those of its line of a training step; null if it has no such branch. */
export function branchRange(record: Fields, branch: number): { readonly start: number; readonly end: number; readonly promptLength: number } | null {
  const branches = listOf(record['branches']).map(fieldsOf);
  if (branch >= branches.length) return null;
  const length = (of: Fields) => Math.max(0, numberOf(of['length']) ?? 0);
  const start = branches.slice(0, branch).reduce((sum, before) => sum + length(before), 0);
  return { start, end: start + length(branches[branch]!), promptLength: numberOf(branches[branch]!['prompt_length']) ?? 0 };
}

interface OwnPart {
  /** The branch as a record of its own. */
  readonly written: Fields;
  readonly turns: number;
  readonly tokens: number | null;
  readonly sampled: number | null;
}

function playedParts(record: Fields, branches: readonly Fields[]): OwnPart[] {
  const [segments, completion] = [listOf(record['segments']).map(fieldsOf), listOf(record['completion']).map(fieldsOf)];
  const ranges = segmentMessages(segments, completion);
  let at = 0;
  return branches.map((branch, i) => {
    const played = branch['played'] === undefined ? null : fieldsOf(branch['played']);
    const from = at;
    at += played === null ? Math.max(0, numberOf(branch['segments']) ?? 0) : 0;
    const own = ranges?.slice(from, at) ?? [];
    const messages = own.length === 0 ? [] : completion.slice(own[0]!.start, own.at(-1)!.end);
    const prompt = i === 0 ? (branch['prompt'] ?? record['prompt']) : branch['prompt'];
    return {
      written: { prompt, ...(played ?? { segments: segments.slice(from, at), completion: messages }) },
      turns: numberOf(branch['generations']) ?? 0,
      tokens: numberOf(branch['tokens']),
      sampled: numberOf(branch['sampled_tokens']),
    };
  });
}

/** A branch begins and ends with a turn of the policy, so the numbers of turns say which segments are whose. */
function trainedParts(record: Fields, branches: readonly Fields[], tokenizer: ModelTokenizer | null): OwnPart[] {
  const ids = unpackInt32(textOf(record['ids']) ?? '') ?? new Int32Array(0);
  const targets = [...(unpackInt32(textOf(record['targets']) ?? '') ?? [])];
  const lengths = Array.isArray(record['turn_tokens']) ? record['turn_tokens'].map((length) => numberOf(length) ?? 0) : stretches(targets);
  const segments = listOf(record['segments']).map(fieldsOf);
  // Else they are texts that an agent gave to be scored, and the tokens alone say what was written.
  const arePlayed = segments.filter(({ kind }) => kind === 'model').length === lengths.length;
  let [turn, target, at] = [0, 0, 0];
  return branches.map((_, i) => {
    const { start, end, promptLength } = branchRange(record, i)!;
    const [first, from] = [target, turn];
    // What is left over belongs to the last.
    const stop = i === branches.length - 1 ? Infinity : end;
    while (turn < lengths.length && (targets[target] ?? end) < stop) target += lengths[turn++]!;
    const own: Fields[] = [];
    const most = stop === Infinity ? Infinity : turn - from;
    for (let seen = 0; at < (arePlayed ? segments.length : 0) && seen < most; at++) {
      own.push(segments[at]!);
      if (segments[at]!['kind'] === 'model') seen++;
    }
    if (!arePlayed && tokenizer !== null)
      own.push({ kind: 'model', text: tokenizer.decode(ids.subarray(start + promptLength, end), { skipSpecialTokens: false }) });
    const images = listOf(record['images'])
      .map(fieldsOf)
      .flatMap((image) => {
        const offset = numberOf(image['offset']) ?? -1;
        return offset >= start && offset < end ? [{ ...image, offset: offset - start }] : [];
      });
    const prompt = { prompt_length: promptLength, ids: packArray(ids.subarray(start, start + promptLength)), images };
    return { written: { ...prompt, segments: own }, turns: turn - from, tokens: end - start, sampled: target - first };
  });
}

function earlier(value: unknown, i: number): number | null {
  const index = numberOf(value);
  return index !== null && Number.isInteger(index) && index >= 0 && index < i ? index : null;
}

function beginsWith(value: unknown, i: number): RolloutBranch['begins_with'] {
  const { branch, messages } = fieldsOf(value);
  const [index, count] = [earlier(branch, i), numberOf(messages)];
  return index === null || count === null || count <= 0 ? null : { branch: index, messages: Math.floor(count) };
}

function forkOf(value: unknown): RolloutBranch['fork'] {
  const { kind, at, difference } = fieldsOf(value);
  const name = textOf(kind);
  return name === null ? null : { kind: name, at: numberOf(at) ?? 0, difference: textOf(difference) ?? '' };
}
