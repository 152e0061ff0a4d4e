/** A window of a table out of all of its rows, as the server makes it. */
import type { RolloutDetail, RolloutLine, RolloutPage, RolloutQuery } from '../../../src/viewing/view-wire.ts';
import { ownValue } from '../text/own-value.ts';

const BINS = 20;

/** @param detailOf The text in which the search looks. */
export function pageOf(all: RolloutPage, query: RolloutQuery, detailOf: (line: RolloutLine) => RolloutDetail | undefined): RolloutPage {
  const { from = 0, count = 100 } = query;
  const found = sorted(
    all.rows.filter((line) => isWanted(line, query, detailOf)),
    query,
  );
  return { ...all, matched: found.length, rows: found.slice(from, from + count), histogram: histogramOf(found) };
}

function isWanted(line: RolloutLine, query: RolloutQuery, detailOf: (line: RolloutLine) => RolloutDetail | undefined): boolean {
  const { stop, task, group, failed, text, min_reward: min, max_reward: max } = query;
  if (stop !== undefined && line.stop !== stop) return false;
  if (task !== undefined && line.task !== task) return false;
  if (group !== undefined && line.group !== group) return false;
  if (failed !== undefined && (line.error !== null) !== failed) return false;
  if (min !== undefined && (line.reward === null || line.reward < min)) return false;
  if (max !== undefined && (line.reward === null || line.reward > max)) return false;
  return text === undefined || holds(detailOf(line), text.toLowerCase());
}

function holds(detail: RolloutDetail | undefined, text: string): boolean {
  if (detail === undefined) return false;
  const contents = [...detail.prompt, ...detail.parts].flatMap(({ content, tool_calls: calls }) => [
    ...content.map((part) => (part.type === 'text' ? part.text : '')),
    ...calls.map((call) => call.arguments),
  ]);
  const answer = typeof detail.answer === 'string' ? detail.answer : JSON.stringify(detail.answer);
  return [...contents, answer].some((one) => one.toLowerCase().includes(text));
}

/** Rows without a value come last in either order. */
function sorted(lines: readonly RolloutLine[], { sort = 'order', descending = false }: RolloutQuery): RolloutLine[] {
  if (sort === 'order') return descending ? lines.toReversed() : [...lines];
  const value = (line: RolloutLine): string | number | null => {
    if (sort === 'id') return line.rollout_id;
    if (sort.startsWith('metric:')) return ownValue(line.metrics, sort.slice(7)) ?? null;
    return sort === 'reward' ? line.reward : sort === 'turns' ? line.turns : line.tokens;
  };
  return lines.toSorted((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    const order = x < y ? -1 : x > y ? 1 : 0;
    return descending ? -order : order;
  });
}

function histogramOf(lines: readonly RolloutLine[]): RolloutPage['histogram'] {
  const rewards = lines.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  if (rewards.length === 0) return null;
  const [low, high] = rewards.reduce(([least, most], reward) => [Math.min(least, reward), Math.max(most, reward)], [Infinity, -Infinity] as [
    number,
    number,
  ]);
  const counts = Array.from({ length: BINS }, () => 0);
  for (const reward of rewards) counts[high === low ? 0 : Math.min(BINS - 1, Math.floor(((reward - low) / (high - low)) * BINS))]! += 1;
  return { low, high, counts };
}
