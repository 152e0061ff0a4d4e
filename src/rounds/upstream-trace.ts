/** Reads DDAI's `unified_trajectory.jsonl`: events of many rollouts in one file, each with `event_type`, `uid`, `sample_idx` and `ts`. Pure. */
import { isObject } from '../schemas/is-object.ts';
import type { TracedEvent, TracedRollout } from './traced-rollouts.ts';

type Event = Readonly<Record<string, unknown>>;

/** The rollouts that have a reward, by the order in which their prompts are first named, then by their index. */
export function upstreamRollouts(events: readonly unknown[]): TracedRollout[] {
  const known = events.filter((event): event is Event => isObject(event) && typeof event['uid'] === 'string' && event['uid'] !== '');
  const byPrompt = Map.groupBy(known, (event) => event['uid'] as string);
  return [...byPrompt].flatMap(([prompt, own]) => {
    const numbered = own.filter((event) => Number.isInteger(event['sample_idx'])).toSorted((a, b) => timeOf(a) - timeOf(b));
    const byIndex = [...Map.groupBy(numbered, (event) => event['sample_idx'] as number)].toSorted(([a], [b]) => a - b);
    const samples = (byIndex.at(-1)?.[0] ?? 0) + 1;
    // A further epoch, or the log of another run, has the same prompts and indices: its rollouts continue the count.
    return byIndex.flatMap(([index, all]) => playsOf(all).flatMap((play, i) => tracedRollout(prompt, index + i * samples, play) ?? []));
  });
}

/** The events of each play, in order of time: after a score, a turn that is not a later one begins the next play. */
function playsOf(events: readonly Event[]): Event[][] {
  const plays: Event[][] = [];
  let [isScored, lastTurn] = [true, Infinity];
  for (const event of events) {
    const { event_type: type, turn_idx: index } = event;
    const turn = typeof index === 'number' ? index : 0;
    if (plays.length === 0 || (type === 'model.plan' && isScored && turn <= lastTurn)) {
      plays.push([]);
      [isScored, lastTurn] = [false, -Infinity];
    }
    plays.at(-1)!.push(event);
    if (type === 'model.plan') lastTurn = turn;
    else if (type === 'rm.flash.detail' || type === 'rm.phase1.detail') isScored = true;
  }
  return plays;
}

function tracedRollout(prompt: string, index: number, events: readonly Event[]): TracedRollout | null {
  const of = (type: string) => events.find((event) => event['event_type'] === type);
  const scored = of('rm.flash.detail') ?? of('rm.phase1.detail');
  if (scored === undefined) return null;
  const text = (key: string) => (typeof scored[key] === 'string' ? scored[key] : '');
  const number = (key: string) => (typeof scored[key] === 'number' ? scored[key] : 0);
  return {
    id: JSON.stringify([prompt, index]),
    prompt,
    index,
    run: text('run_id'),
    question: text('query'),
    reference: text('reference_answer') || text('ground_truth'),
    reward: number('final_score'),
    judge: typeof scored['judge_score'] === 'number' ? scored['judge_score'] : null,
    asksJudge: typeof scored['judge_score'] === 'number',
    ndcg: typeof scored['ndcg'] === 'number' ? scored['ndcg'] : null,
    format: typeof scored['format_score'] === 'number' ? scored['format_score'] > 0 : null,
    answer: typeof scored['generated_answer'] === 'string' ? scored['generated_answer'] : null,
    hasSearched: of('tool.search.response') !== undefined || texts(scored['retrieved_basenames']).length > 0,
    pages: texts(scored['retrieved_basenames']),
    golden: texts(scored['reference_basenames']),
    opening: null,
    calls: [],
    events: events.flatMap((event) => tracedEvent(event) ?? []),
  };
}

function tracedEvent(event: Event): TracedEvent | null {
  if (event['event_type'] === 'model.plan')
    return {
      kind: 'turn',
      text: typeof event['text'] === 'string' ? event['text'] : '',
    };
  if (event['event_type'] === 'tool.search.response') {
    const { results } = event;
    return {
      kind: 'pages',
      pictures: Array.isArray(results)
        ? results.map((result) => (isObject(result) && typeof result['image_file'] === 'string' ? result['image_file'] : null))
        : null,
    };
  }
  if (event['event_type'] === 'tool.bbox.result')
    return { kind: 'crop', picture: typeof event['crop_path'] === 'string' ? event['crop_path'] : null };
  return null;
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

function timeOf(event: Event): number {
  const time = Number(event['ts'] ?? event['timestamp'] ?? 0);
  return Number.isFinite(time) ? time : 0;
}
