/**
 * Shows the progress of a run on stderr: a block redrawn in place on a terminal, otherwise a line every few seconds. Pure functions at the end
 * of this file make the text.
 */
import type { EvaluationEvent, EvaluationProgress } from '../../evaluate/evaluation-options.ts';
import { thrownPlace } from '../../core/thrown-place.ts';
import { barLine, LiveBlock } from '../live-block.ts';
import { countText, durationText, meanText, plural } from '../../reports/text/number-text.ts';
import { transportSettings } from '../../transport/transport-settings.ts';
import { type Paint, noPaint } from '../../reports/text/paint.ts';
import { clip, escapeControls } from '../../reports/text/terminal-text.ts';

export interface ProgressOptions {
  readonly stream: NodeJS.WriteStream;
  /** Lines instead of a block. */
  readonly plain: boolean;
  readonly paint: Paint;
  /** Name of the run, shown before the bar. */
  readonly title: string;
  /** Show every failure with its stack, instead of the first of each class. */
  readonly verbose: boolean;
  /** Removes secrets from error messages. */
  readonly redact: (text: string) => string;
}

const REDRAW_MS = 120;
const LINE_MS = 5_000;

export class Progress {
  readonly #options: ProgressOptions;
  /** When the first rollout could begin, and when the last one ended. */
  #startedMs = performance.now();
  #endedMs: number | null = null;
  readonly #failuresShown = new Set<string>();
  #state: EvaluationProgress | null = null;
  /** Rollouts kept by a resume, which do not count for the speed. */
  #kept = 0;
  readonly #block: LiveBlock;
  /** Those of the run that this is the progress of. */
  readonly #waits = transportSettings().waits;

  constructor(options: ProgressOptions) {
    this.#options = options;
    const { stream, paint, title, plain } = options;
    this.#block = new LiveBlock({
      stream,
      plain,
      everyMs: plain ? LINE_MS : REDRAW_MS,
      draw: (columns) =>
        plain ? [progressLine(this.#state!, this.#speed())] : progressBlock(this.#state!, this.#speed(), { columns, paint, title }),
    });
  }

  onEvent(event: EvaluationEvent): void {
    this.#state = event.progress;
    if (event.type === 'started') {
      this.#startedMs = performance.now();
      this.#kept = event.progress.done;
      if (event.kept + event.redone > 0) {
        const again = event.redone === 0 ? '' : `, playing ${event.redone} again that failed or whose group is not complete`;
        this.note(`kept ${plural(event.kept, 'finished rollout')}${again}`);
      }
      this.#block.start();
    } else if (event.type === 'notice') {
      this.note(this.#options.paint('yellow', escapeControls(this.#options.redact(event.text))));
    } else if (event.type === 'rollout' && event.error !== null) {
      this.#failure(event.error, event);
    }
    if (event.progress.done >= event.progress.total) this.#endedMs ??= performance.now();
  }

  /** Writes a permanent line above the block. */
  note(line: string): void {
    this.#block.note(line);
  }

  /** Erases the block and stops; in plain mode prints a last line. Safe to call twice. */
  close(): void {
    this.#block.close();
  }

  #failure(error: string, { exampleId, stack }: { readonly exampleId: string | number; readonly stack?: string }): void {
    const name = error.split(':', 1)[0]!;
    if (this.#failuresShown.has(name) && !this.#options.verbose) return;
    this.#failuresShown.add(name);
    const more = this.#options.verbose ? '' : ' (further failures of this kind are only counted)';
    // Only code of the environment's author throws these without a cause, on purpose: the message then says everything.
    const isUnforeseen = /^(Environment|Reward)Error$/.test(name) && stack?.includes('\ncaused by ') === true;
    const place = this.#options.verbose || !isUnforeseen ? null : thrownPlace(stack);
    const text = `${this.#options.redact(error).slice(0, 300)}${place === null ? '' : ` (${this.#options.redact(place)})`}`;
    this.note(this.#options.paint('red', escapeControls(`rollout of row ${exampleId} failed: ${text}`)) + more);
    if (!this.#options.verbose || stack === undefined) return;
    for (const line of escapeControls(this.#options.redact(stack), { lines: true }).split('\n')) this.note(line);
  }

  #speed(): Speed {
    const elapsedSeconds = ((this.#endedMs ?? performance.now()) - this.#startedMs) / 1000;
    return { elapsedSeconds, kept: this.#kept, waitedSeconds: this.#waits.totalMs / 1000 };
  }
}

export interface Speed {
  readonly elapsedSeconds: number;
  /** Rollouts that a resume kept. */
  readonly kept: number;
  /** Seconds of them during which a request waited for a rate limit. @default 0 */
  readonly waitedSeconds?: number;
}

/** `12/50 rollouts, reward 0.417, em 0.417, 0 failed, 3.10/s, 12 s left, 32 in flight`. */
export function progressLine(progress: EvaluationProgress, speed: Speed): string {
  return `${countText(progress.done)}/${countText(progress.total)} rollouts, ${standing(progress, speed).join(', ')}`;
}

/** Two lines, the bar above the figures, each at most `columns` wide. */
export function progressBlock(
  progress: EvaluationProgress,
  speed: Speed,
  { columns, paint = noPaint, title }: { readonly columns: number; readonly paint?: Paint; readonly title: string },
): string[] {
  const { done, total } = progress;
  const count = `${countText(done)}/${countText(total)}`;
  return [barLine({ name: title, done, total, count }, { columns, paint }), paint('dim', clip(standing(progress, speed).join(' · '), columns))];
}

function standing(
  { done, total, errored, rewardMean, headlines, active }: EvaluationProgress,
  { elapsedSeconds, kept, waitedSeconds = 0 }: Speed,
): string[] {
  const played = done - kept;
  const rate = played > 0 && elapsedSeconds > 0.5 ? played / elapsedSeconds : null;
  return [
    `reward ${meanText(rewardMean)}`,
    ...headlines.flatMap(({ name, mean }) => (mean === null ? [] : [`${name} ${meanText(mean)}`])),
    `${countText(errored)} failed`,
    ...(rate === null ? [] : [`${rate >= 10 ? rate.toFixed(0) : rate.toFixed(2)}/s`]),
    rate === null || done >= total ? `${durationText(elapsedSeconds)} so far` : `${durationText((total - done) / rate)} left`,
    ...(done >= total ? [] : [`${countText(active)} in flight`]),
    ...(waitedSeconds < 0.5 ? [] : [`waited ${durationText(waitedSeconds)} for rate limits`]),
  ];
}
