/** Combines the lines of this package's `trace.jsonl` into rollouts, in any order of the lines. */
import type { WireTraceLine } from '../schemas/trace-line.ts';
import { isObject } from '../schemas/is-object.ts';
import type { MessageV1 } from '../schemas/messages-v1.ts';
import { compareTexts } from './compare-texts.ts';
import type { TracedCall, TracedEvent, TracedRollout } from './traced-rollouts.ts';

/** A line with the fields of its event. */
export type OwnLine = WireTraceLine & Readonly<Record<string, unknown>>;

/** Counts of the traces' contents; a rollout is in at most one of them. */
export interface TraceCounts {
  /** Rollouts with a reward. */
  rollouts: number;
  /** Rollouts that failed; they have no reward. */
  failed: number;
  /** Earlier plays of rollouts that were played again. */
  repeated: number;
  /** Plays of which some lines are missing. */
  incomplete: number;
  /** Rollouts of a training run's evaluations. */
  evaluations: number;
  /** Last lines that a killed process left unfinished. */
  torn: number;
  /** Events of DDAI's log without the rollout to which they belong. @default none */
  unplaced?: number;
}

interface Play {
  readonly play: number;
  readonly lines: OwnLine[];
}

interface Place {
  readonly run: string;
  readonly prompt: string;
  readonly step: number;
  readonly phase: string;
  readonly id: string;
  play: Play;
  /** All plays of it that the trace has. */
  readonly plays: Set<number>;
}

export class OwnTrace {
  readonly #counts: TraceCounts;
  readonly #withTexts: boolean | ((prompt: string) => boolean);
  readonly #places = new Map<string, Place>();

  /** @param withTexts whether texts are kept, of all rollouts or of these prompts */
  constructor(counts: TraceCounts, withTexts: boolean | ((prompt: string) => boolean)) {
    this.#counts = counts;
    this.#withTexts = withTexts;
  }

  add(line: OwnLine): void {
    const { rollout_id: id, group_id: prompt, run_id: run, step, phase = '', evaluation = false, play = 0 } = line;
    if (id === null || prompt === null) return;
    if (evaluation) {
      if (line.event === 'reward') this.#counts.evaluations += 1;
      return;
    }
    const key = JSON.stringify([run, step, phase, id]);
    const known = this.#places.get(key);
    if (known === undefined) {
      this.#places.set(key, {
        run,
        prompt,
        step: step ?? -1,
        phase,
        id: key,
        play: { play, lines: [this.#slim(line, prompt)] },
        plays: new Set([play]),
      });
      return;
    }
    known.plays.add(play);
    if (play === known.play.play) known.play.lines.push(this.#slim(line, prompt));
    else if (play > known.play.play) known.play = { play, lines: [this.#slim(line, prompt)] };
  }

  /** By prompt, run and step; a rollout's index counts those of its prompt in its run. */
  rollouts(): TracedRollout[] {
    for (const { plays } of this.#places.values()) this.#counts.repeated += plays.size - 1;
    const byPrompt = Map.groupBy(this.#places.values(), ({ run, prompt }) => JSON.stringify([prompt, run]));
    const keys = [...byPrompt.keys()].toSorted(compareTexts);
    return keys.flatMap((key) => {
      const plays = byPrompt.get(key)!.flatMap((place) => {
        const reward = rewardOf(place.play.lines);
        if (reward === null) this.#counts.incomplete += 1;
        return reward === null ? [] : [{ place, reward }];
      });
      const inOrder = plays.toSorted(
        (a, b) =>
          a.place.step - b.place.step ||
          compareTexts(a.place.phase, b.place.phase) ||
          indexOf(a.reward) - indexOf(b.reward) ||
          compareTexts(a.place.id, b.place.id),
      );
      return inOrder.flatMap(({ place, reward }, index) => {
        const isFailed = typeof reward['reward'] !== 'number';
        this.#counts[isFailed ? 'failed' : 'rollouts'] += 1;
        return isFailed ? [] : [tracedRollout(place, reward, index)];
      });
    });
  }

  #slim(line: OwnLine, prompt: string): OwnLine {
    if (this.#withTexts === true || (this.#withTexts !== false && this.#withTexts(prompt))) return line;
    const { text: _, prompt: __, results: ___, ...rest } = line;
    // The generator's answer is short and needed.
    return line.event === 'generator' ? { ...rest, text: line['text'] } : rest;
  }
}

function rewardOf(lines: readonly OwnLine[]): OwnLine | null {
  const last = lines.find(({ event }) => event === 'reward');
  return last === undefined || last.lines !== new Set(lines.map(({ seq }) => seq)).size ? null : last;
}

function indexOf(line: OwnLine): number {
  return numberOf(line['rollout_index']);
}

function tracedRollout({ prompt, run, id, play }: Place, reward: OwnLine, index: number): TracedRollout {
  // Each line once: a trace may be given together with a copy of it.
  const lines = [...new Map(play.lines.map((line) => [line.seq, line])).values()].toSorted((a, b) => (a.seq ?? 0) - (b.seq ?? 0));
  const metrics = isObject(reward['metrics']) ? reward['metrics'] : {};
  const info = isObject(reward['info']) ? reward['info'] : {};
  const answer = lines.findLast(({ event }) => event === 'generator')?.['text'];
  return {
    id,
    prompt,
    index,
    run,
    question: textOf(reward['question']),
    reference: textOf(reward['reference']),
    reward: numberOf(reward['reward']),
    judge: typeof metrics['judge'] === 'number' ? metrics['judge'] : null,
    // The environment has this metric whenever it has a judge.
    asksJudge: 'judge' in metrics || 'judge_failed' in metrics,
    ndcg: typeof metrics['ndcg'] === 'number' ? metrics['ndcg'] : null,
    format: typeof metrics['format_pass'] === 'number' ? metrics['format_pass'] > 0 : null,
    answer: typeof answer === 'string' ? answer : null,
    hasSearched: lines.some(({ event }) => event === 'search.request' || event === 'search.response'),
    pages: [...new Set(lines.flatMap((line) => (line.event === 'search.response' && typeof line['page'] === 'string' ? [line['page']] : [])))],
    golden: Array.isArray(info['golden_pages']) ? info['golden_pages'].filter((page) => typeof page === 'string') : [],
    opening: openingOf(reward['prompt']),
    calls: lines.flatMap((line) => callOf(line) ?? []),
    events: lines.flatMap((line) => eventOf(line) ?? []),
  };
}

function eventOf(line: OwnLine): TracedEvent | null {
  const words = typeof line['text'] === 'string' ? { words: line['text'] } : {};
  const pictures = Array.isArray(line['images']) ? (line['images'] as unknown[]).filter((image) => typeof image === 'string') : [];
  const shown = pictures[0] ?? (typeof line['page'] === 'string' ? line['page'] : null);
  if (line.event === 'model.turn') return { kind: 'turn', text: textOf(line['text']) };
  if (line.event === 'search.response') return { kind: 'pages', pictures: shown === null ? null : [shown], ...words };
  if (line.event === 'crop') return { kind: 'crop', picture: shown, ...words };
  return null;
}

function callOf(line: OwnLine): TracedCall | null {
  const { ms, wait_ms: waitMs } = line;
  if (typeof ms !== 'number') return null;
  // The reply came from the cache.
  if (line['attempts'] === 0) return null;
  const name = line.event === 'search.response' ? 'search' : line.event;
  return { name, ms, waitMs: typeof waitMs === 'number' ? waitMs : null };
}

/** Messages with text only; null if the trace has none. */
function openingOf(prompt: unknown): MessageV1[] | null {
  if (!Array.isArray(prompt)) return null;
  return prompt.flatMap((message: unknown): MessageV1[] =>
    isObject(message) && typeof message['content'] === 'string' ? [{ role: message['role'] as MessageV1['role'], content: message['content'] }] : [],
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
