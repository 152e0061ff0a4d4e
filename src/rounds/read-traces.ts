/** Reads traces, this package's or DDAI's, in any order of files and lines. A torn last line is counted; any other bad line is an error that names it. */
import { createHash } from 'node:crypto';
import { ConfigError } from '../core/errors.ts';
import { readExactJson } from '../core/read-json.ts';
import { userLines } from '../files/user-lines.ts';
import { isObject } from '../schemas/is-object.ts';
import { isDeeperThan, MOST_LEVELS } from '../schemas/nesting.ts';
import { parseWire } from '../schemas/results.ts';
import { TraceLineSchema } from '../schemas/trace-line.ts';
import { compareTexts } from './compare-texts.ts';
import { type OwnLine, OwnTrace, type TraceCounts } from './own-trace.ts';
import type { TracedRollout } from './traced-rollouts.ts';
import { eventTime, rewardProblem, scoreProblem } from './trace-values.ts';
import { upstreamRollouts } from './upstream-trace.ts';

export interface Traces {
  /** Those with a reward, by prompt. */
  readonly rollouts: readonly TracedRollout[];
  readonly counts: Readonly<TraceCounts>;
}

export interface ReadTracesOptions {
  /** Tells whether texts are kept: of all rollouts, or of these prompts. Without them much less memory is needed. @default true */
  readonly withTexts?: boolean | ((prompt: string) => boolean);
}

/** The parts of DDAI's events that a rollout needs; some events hold whole prompts and responses. */
const UPSTREAM_EVENTS = new Set(['model.plan', 'tool.search.response', 'tool.bbox.result', 'rm.flash.detail', 'rm.phase1.detail']);

/** Rejects with ConfigError for a file that is missing or empty, and for a line that does not belong to a trace. */
export async function readTraces(paths: readonly string[], { withTexts = true }: ReadTracesOptions = {}): Promise<Traces> {
  const counts: TraceCounts = { rollouts: 0, failed: 0, repeated: 0, incomplete: 0, evaluations: 0, torn: 0 };
  const own = new OwnTrace(counts, withTexts);
  const upstream: Readonly<Record<string, unknown>>[] = [];
  const seen = new Set<string>();
  for (const path of paths) {
    let lines = 0;
    for await (const { text, number, isWhole } of userLines(path, {
      remedy: 'name the trace.jsonl of a run of visual-rag, or of another environment that sets traces',
    })) {
      lines += 1;
      const line = text === null ? 'not UTF-8' : parsedLine(text);
      if (text === null || typeof line === 'string') {
        if (isWhole)
          throw new ConfigError(
            `Line ${number} of the trace ${path} is ${line as string}; delete it, or give a trace.jsonl or DDAI's unified_trajectory.jsonl`,
          );
        counts.torn += 1;
      } else if ('event_type' in line) {
        if (!UPSTREAM_EVENTS.has(line['event_type'] as string)) continue;
        if (!isPlaced(line)) {
          counts.unplaced = (counts.unplaced ?? 0) + 1;
          continue;
        }
        const seconds = eventTime(line);
        const problem = typeof seconds === 'number' ? upstreamProblem(line) : seconds.problem;
        if (problem !== null) throw wrongValue(path, number, problem);
        // A log that was copied into another one, or is given twice, has the same lines again. Its events have times, so those of another play differ.
        const digest = createHash('sha256').update(text).digest('base64');
        const keepsTexts = typeof withTexts === 'function' ? withTexts(line['uid'] as string) : withTexts;
        if (!seen.has(digest)) upstream.push({ ...slimmed(line, keepsTexts), ts: seconds });
        seen.add(digest);
      } else {
        const problem = line['event'] === 'reward' ? rewardProblem(line) : null;
        if (problem !== null) throw wrongValue(path, number, problem);
        own.add(line as OwnLine);
      }
    }
    if (lines === 0) throw new ConfigError(`The trace ${path} is empty; give the trace.jsonl of a run that has played rollouts`);
  }
  const ofUpstream = upstreamRollouts(upstream);
  counts.rollouts += ofUpstream.length;
  const rollouts = [...own.rollouts(), ...ofUpstream.toSorted((a, b) => compareTexts(a.prompt, b.prompt))];
  if (rollouts.length === 0) {
    const { failed, incomplete, evaluations } = counts;
    throw new ConfigError(
      `No rollout with a reward is in ${paths.join(', ')} (${failed} failed, ${incomplete} incomplete, ${evaluations} of evaluations); give the trace of a run that has scored rollouts`,
    );
  }
  return { rollouts, counts };
}

function wrongValue(path: string, number: number, problem: string): ConfigError {
  return new ConfigError(`Line ${number} of the trace ${path}: ${problem}; correct the value, or give the trace as the run wrote it`);
}

/** Tells whether an event of DDAI's log names the rollout to which it belongs. */
function isPlaced({ uid, sample_idx: index }: Readonly<Record<string, unknown>>): boolean {
  return typeof uid === 'string' && uid !== '' && Number.isInteger(index);
}

function upstreamProblem(event: Readonly<Record<string, unknown>>): string | null {
  return String(event['event_type']).startsWith('rm.') ? scoreProblem(event) : null;
}

/** The line, or a description of its fault. */
function parsedLine(text: string): Readonly<Record<string, unknown>> | string {
  let line: unknown;
  try {
    line = readExactJson(text);
  } catch {
    return text === '' ? 'empty' : 'not JSON';
  }
  if (!isObject(line)) return 'not a JSON object';
  if (isDeeperThan(line, MOST_LEVELS)) return `nested more than ${MOST_LEVELS} levels deep`;
  if (typeof line['event_type'] === 'string') return line;
  if (typeof line['event'] !== 'string') return 'not a line of a trace: it has neither "event" nor "event_type"';
  const parsed = parseWire(TraceLineSchema, text);
  return 'problem' in parsed ? `not a line of a trace: ${parsed.problem}` : line;
}

function slimmed(event: Readonly<Record<string, unknown>>, withTexts: boolean): Readonly<Record<string, unknown>> {
  const { prompt: _, response: __, ...rest } = event;
  return withTexts || event['event_type'] !== 'model.plan' ? rest : { ...rest, text: '' };
}
