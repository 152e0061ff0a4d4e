/**
 * Shows a training run on stderr: a block redrawn in place on a terminal, otherwise a line per step, evaluation and event. The text comes from
 * live-block-lines.ts and plain-lines.ts.
 */
import { stripVTControlCharacters } from 'node:util';
import type { MetricsRow, TrainingEvent, TrainingObserver, TrainingPhase } from '../../trainer/training-observer.ts';
import { LABEL_WIDTH } from '../../reports/text/report.ts';
import { LiveBlock } from '../live-block.ts';
import type { Paint } from '../../reports/text/paint.ts';
import { cellWidth, escapeControls, wrap } from '../../reports/text/terminal-text.ts';
import type { EvaluationLabel } from '../../reports/training/evaluation-label.ts';
import { liveBlockLines } from './live-block-lines.ts';
import { type LiveState, isWarning, liveState, withEvaluation, withEvent, withPhase, withStep } from './live-state.ts';
import { evaluationLine, eventLine, stepLine, validationLine } from './plain-lines.ts';

export interface LiveViewOptions {
  readonly stream: NodeJS.WriteStream;
  /** Lines instead of a block. */
  readonly plain: boolean;
  readonly paint: Paint;
  readonly name: string;
  /** The run's folder, as displayed. */
  readonly directory: string;
  /** Steps of the whole run. */
  readonly steps: number;
  /** Rows of earlier sessions. */
  readonly rows?: readonly MetricsRow[];
  /** Every failure, with its stack. @default false */
  readonly verbose?: boolean;
  /** Removes secrets from an event's message. */
  readonly redact: (text: string) => string;
}

const REDRAW_MS = 250;

export class LiveView implements TrainingObserver {
  readonly #options: LiveViewOptions;
  readonly #started = performance.now();
  readonly #block: LiveBlock;
  #state: LiveState;

  /** Shows the block until `close`. */
  constructor(options: LiveViewOptions) {
    this.#options = options;
    this.#state = liveState({ ...options, rows: options.rows ?? [] });
    const { stream, paint, plain } = options;
    this.#block = new LiveBlock({
      stream,
      plain,
      everyMs: REDRAW_MS,
      draw: (columns) => liveBlockLines(this.#state, { columns, seconds: this.#seconds(), paint }),
    });
    if (!options.plain) this.#block.start();
  }

  /** The rows are known only once the environment is open. */
  nameEvaluations(evaluationLabel: EvaluationLabel): void {
    this.#state = { ...this.#state, evaluationLabel };
  }

  onPhase(name: TrainingPhase, step: number): void {
    this.#state = withPhase(this.#state, { name, step }, this.#seconds());
  }

  onRollouts(rollouts: { readonly done: number; readonly total: number; readonly failed: number }): void {
    this.#state = { ...this.#state, rollouts };
  }

  onFailedRollout({ rolloutId, error }: Parameters<NonNullable<TrainingObserver['onFailedRollout']>>[0]): void {
    if (this.#options.verbose !== true) return;
    this.note(this.#shown(`rollout ${rolloutId} failed: ${error.type}: ${error.message}`), 'yellow');
    this.#stack(error.stack);
  }

  onStep(row: MetricsRow): void {
    this.#state = withStep(this.#state, row, this.#seconds());
    if (this.#options.plain) this.note(stepLine(row, this.#options.steps));
  }

  onEvaluation(row: MetricsRow): void {
    this.#state = withEvaluation(this.#state, row);
    if (this.#options.plain) this.note(evaluationLine(row, this.#options.steps, this.#state.evaluationLabel));
  }

  /** A line of its own in the live display too: its block shows rewards. */
  onValidation(row: MetricsRow): void {
    this.note(validationLine(row, this.#options.steps), 'dim');
  }

  onEvent(reported: TrainingEvent): void {
    const event = { ...reported, message: this.#options.redact(reported.message) };
    this.#state = withEvent(this.#state, event);
    this.note(eventLine(event, this.#options.steps), isWarning(event) ? 'yellow' : 'dim');
    if (this.#options.verbose === true) this.#stack(reported.stack);
  }

  #stack(stack: string | null | undefined): void {
    for (const line of stack?.split('\n') ?? []) this.note(this.#shown(line), 'dim');
  }

  /** Makes a message of a server or an environment safe to print. */
  #shown(text: string): string {
    return escapeControls(this.#options.redact(text));
  }

  /** Writes a permanent line above the block, broken into several on a narrow terminal. The text is not escaped. */
  note(line: string, style?: Parameters<Paint>[0]): void {
    const { plain, stream, paint } = this.#options;
    const painted = (text: string) => (style === undefined ? text : paint(style, text));
    if (plain) this.#block.note(painted(line));
    // The last column stays free, because clearing the rest of a line may erase it.
    else for (const part of fitted(line, (stream.columns || 80) - 1)) this.#block.note(painted(part));
  }

  /** Erases the block and stops. Safe to call twice. */
  close(): void {
    this.#block.close();
  }

  #seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }
}

/** Returns the line if it fits, else its parts, indented after the first. Colours take no room. */
function fitted(line: string, columns: number): string[] {
  if (cellWidth(stripVTControlCharacters(line)) <= columns) return [line];
  const parts = wrap(line.slice(LABEL_WIDTH), columns - LABEL_WIDTH, { wholeWords: true });
  return parts.map((part, i) => (i === 0 ? line.slice(0, LABEL_WIDTH) : ' '.repeat(LABEL_WIDTH)) + part);
}
