/** Reads the replies of a judge and a generator (DDAI, rm_phase2). */
import { pythonFloat, pythonJson } from './python-values.ts';

export interface Verdict {
  /** 0 to 1; 0 if the reply is malformed. */
  readonly score: number;
  readonly malformed: boolean;
}

/** The score of a judge's reply as upstream reads it: the whole reply is a JSON object; a score outside 0 to 1 is clamped, NaN to 1; without a score it is 0. */
export function readVerdict(reply: string): Verdict {
  const object = pythonJson(reply);
  const malformed: Verdict = { score: 0, malformed: true };
  if (typeof object !== 'object' || object === null || Array.isArray(object)) return malformed;
  const score = pythonFloat((object as { score?: unknown }).score ?? ('score' in object ? null : 0));
  if (score === undefined) return malformed;
  return { score: Number.isNaN(score) ? 1 : Math.max(0, Math.min(1, score)), malformed: false };
}

/** The text between the last `</answer>` and the last `<answer>` before it; null if there is none. */
export function extractAnswer(text: string): string | null {
  const end = text.lastIndexOf('</answer>');
  const start = end === -1 ? -1 : text.slice(0, end).lastIndexOf('<answer>');
  return start === -1 ? null : text.slice(start + '<answer>'.length, end);
}
