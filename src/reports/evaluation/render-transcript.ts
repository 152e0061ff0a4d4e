/** Renders one rollout as lines: the text of each author in order, trimmed unless the full text is requested. */
import { branchPlace, branchReason } from '../../core/branch-text.ts';
import type { SampleTranscript } from '../../schemas/summary.ts';
import { valueText } from '../text/number-text.ts';
import type { Paint } from '../text/paint.ts';
import { cellWidth, clip, escapeControls, wrap } from '../text/terminal-text.ts';
import { isObject } from '../../schemas/is-object.ts';

export interface TranscriptOptions {
  readonly columns: number;
  readonly paint: Paint;
  /** Show every text in full instead of its beginning and end. */
  readonly full: boolean;
  /** @default One rollout */
  readonly title?: string;
}

const LABEL = 13;
/** Lines of a trimmed text: its head, a mark, and its last line. */
const LINES = { prompt: 4, observation: 5, model: 8 } as const;

export function renderTranscript(sample: SampleTranscript, { columns, paint, full, title = 'One rollout' }: TranscriptOptions): string[] {
  const width = Math.max(20, columns - LABEL - 2);
  const block = (label: string, text: string, lines: number) => {
    const shown = full ? wrap(escapeControls(text, { lines: true }), width) : trimmed(text, width, lines);
    return shown.map((line, i) =>
      `  ${i === 0 ? paint(label === 'model' ? 'cyan' : 'dim', clip(escapeControls(label), LABEL - 1).padEnd(LABEL)) : ' '.repeat(LABEL)}${line}`.trimEnd(),
    );
  };
  const facts = [
    `row ${escapeControls(String(sample.exampleId))}, rollout ${sample.rolloutIndex + 1}`,
    sample.reward === null ? 'no reward' : `reward ${valueText(sample.reward)}`,
    ...(sample.stopCondition === null ? [] : [escapeControls(sample.stopCondition)]),
    ...(sample.branches === undefined ? [] : [`${sample.branches.length} branches`]),
  ];
  return [
    `${paint('bold', title)}  ${paint('dim', clip(facts.join(', '), columns - title.length - 2))}`,
    ...sample.prompt.flatMap(({ role, content }) => block(role, content, LINES.prompt)),
    ...parts(sample).flatMap(({ headline, prompt, segments }) => [
      ...(headline === null ? [] : wrap(escapeControls(headline), columns - 2).map((line) => `  ${paint('bold', line)}`)),
      ...prompt.flatMap(({ role, content }) => block(role, content, LINES.prompt)),
      ...segments.flatMap(({ kind, text }) => block(kind, text, kind === 'model' ? LINES.model : LINES.observation)),
    ]),
    ...repliesBeside(sample).flatMap(({ role, text }) => block(role, text, LINES.prompt)),
    ...(sample.answer === null || sample.answer === undefined ? [] : block('reference', answerText(sample.answer), LINES.prompt)),
  ];
}

interface Part {
  readonly headline: string | null;
  /** Messages that it read and no branch before it did. */
  readonly prompt: SampleTranscript['prompt'];
  readonly segments: SampleTranscript['segments'];
}

/** The segments of each branch, under where and why it began; those of a rollout of one sequence have no headline. */
function parts({ segments, branches }: SampleTranscript): readonly Part[] {
  if (branches === undefined) return [{ headline: null, prompt: [], segments }];
  let at = 0;
  return branches.map(({ segments: count, role, parent, fork, prompt = [] }, i) => {
    const place = branchPlace({ parent, fork });
    const reason = i === 0 && fork === null ? null : branchReason(fork);
    const why = [role, reason, place].filter((part) => part !== undefined && part !== null).join(', ');
    const rest = i === branches.length - 1 ? segments.length : at + count;
    return { headline: `branch ${i}${why === '' ? '' : `: ${why}`}`, prompt, segments: segments.slice(at, (at = rest)) };
  });
}

/** Replies of models by role, without those that an observation already quotes between its tags, such as a refiner's. */
function repliesBeside({ asked = [], segments }: SampleTranscript): { readonly role: string; readonly text: string }[] {
  const quoted = segments.flatMap(({ kind, text }) =>
    kind === 'model' ? [] : text.replace(/<[^>]*(?:>|$)/g, (tag) => (tag.endsWith('>') ? '' : tag)).trim() || [],
  );
  return asked.filter(({ text }) => !quoted.some((quote) => text.includes(quote)));
}

/** Head and tail of the text in at most `lines` lines. Long texts are cut before they are wrapped, so that 10 MB cost no more than 10 kB. */
function trimmed(text: string, width: number, lines: number): string[] {
  const budget = width * lines * 4;
  const isLong = text.length > budget * 2;
  const head = wrap(safe(isLong ? text.slice(0, budget) : text), width);
  if (!isLong && head.length <= lines) return head;
  const tail = isLong ? wrap(safe(text.slice(-budget)), width) : head;
  const kept = head.slice(0, lines - 2);
  const last = tail.at(-1)!;
  const shownCharacters = [...kept, last].reduce((sum, line) => sum + line.length, 0);
  const mark = `… ${Math.max(1, text.length - shownCharacters)} characters left out, -v shows them`;
  return [...kept, cellWidth(mark) <= width ? mark : '…', last];
}

/** Drops blank lines, and at either end half of a surrogate pair that a cut has split. */
function safe(text: string): string {
  const whole = text.replace(/^[\udc00-\udfff]/, '').replace(/[\ud800-\udbff]$/, '');
  return escapeControls(whole.trim().replace(/\n\s*\n/g, '\n'), { lines: true });
}

function answerText(answer: unknown): string {
  if (typeof answer === 'string') return answer;
  const golden = goldenAnswers(answer);
  if (golden !== null) return golden.join(' | ');
  if (!isObject(answer)) return JSON.stringify(answer) ?? '';
  // Any other `info` of a row: one field per line.
  return Object.entries(answer)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('\n');
}

/** Keys under which data sets keep reference answers; upstream uses `{ target }`, alone or inside `ground_truth`. */
const GOLDEN_KEYS = ['target', 'ground_truth', 'golden_answers', 'answers', 'answer'];

function goldenAnswers(value: unknown): readonly string[] | null {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.every((item) => typeof item === 'string') ? value : null;
  if (!isObject(value)) return null;
  for (const key of GOLDEN_KEYS) {
    const golden = value[key] === undefined ? null : goldenAnswers(value[key]);
    if (golden !== null) return golden;
  }
  return null;
}
