/** Renders findings as lines: state, name and text side by side, the remedy below. */
import { plural } from '../../reports/text/number-text.ts';
import { type Paint, paintFor } from '../../reports/text/paint.ts';
import { escapeControls, wrap } from '../../reports/text/terminal-text.ts';
import type { Finding, FindingState } from '../../sessions/finding.ts';

const STATE_WIDTH = 9;
const NAME_WIDTH = 13;
const INDENT = STATE_WIDTH + NAME_WIDTH;
const STYLES: Readonly<Record<FindingState, Parameters<Paint>[0]>> = { ok: 'green', missing: 'red', warning: 'yellow', skipped: 'dim' };

export function renderFinding({ name, state, text, remedy }: Finding, columns: number, paint: Paint): string {
  const width = Math.max(30, Math.min(columns, 110) - INDENT);
  const lines = wrap(escapeControls(text), width).map((line, i) =>
    i === 0 ? `${paint(STYLES[state], state.padEnd(STATE_WIDTH))}${name.padEnd(NAME_WIDTH)}${line}` : `${' '.repeat(INDENT)}${line}`,
  );
  // Never wrapped, so that it can be copied.
  const remedyLines = remedy === undefined ? [] : [`${' '.repeat(INDENT)}${paint('cyan', escapeControls(remedy))}`];
  return [...lines, ...remedyLines].join('\n');
}

/** @param isPartial what was skipped may be missing */
export function renderVerdict(findings: readonly Finding[], paint: Paint, isPartial = false): string {
  const count = (state: FindingState) => findings.filter((finding) => finding.state === state).length;
  const [missing, warnings] = [count('missing'), count('warning')];
  const also = warnings === 0 ? '' : `, ${plural(warnings, 'warning')}`;
  // What is not needed was not left out.
  const isAll = !isPartial || findings.every(({ state, text }) => state !== 'skipped' || text.startsWith('not needed'));
  return missing === 0
    ? paint('green', `Nothing is missing${isAll ? '' : ' of what was checked'}${also}.`)
    : paint('red', `${plural(missing, 'requirement')} missing${also}.`);
}

export function isWell(findings: readonly Finding[]): boolean {
  return findings.every(({ state }) => state !== 'missing');
}

/** The end of a dry run, for stdout: what was checked, and what could not be. */
export function checkedLines(findings: readonly Finding[]): readonly string[] {
  return ['Checked', '', ...findingLines(findings), '', renderVerdict(findings, paintFor(process.stdout, { plain: false }), true)];
}

/** For stdout. */
export function findingLines(findings: readonly Finding[]): string[] {
  const paint = paintFor(process.stdout, { plain: false });
  const columns = process.stdout.columns ?? 100;
  return findings.map((finding) => renderFinding(finding, columns, paint));
}
