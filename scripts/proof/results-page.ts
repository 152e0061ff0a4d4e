/** Writes the page of a proof (NAME.md, NAME.json and the plot NAME.svg) and prints its verdicts. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import type { ProofOptions } from './proof-options.ts';

export interface Verdict {
  readonly ok: boolean;
  readonly text: string;
}

export interface ResultsPage {
  /** Base name of the files. */
  readonly name: string;
  readonly title: string;
  /** Lines that follow the sentence with the command and the machine. */
  readonly intro: readonly string[];
  /** Null for a page without a plot. `alt`: its description. */
  readonly plot: { readonly svg: string; readonly alt: string } | null;
  /** Markdown below the plot. */
  readonly body: readonly string[];
  /** For NAME.json, which also has command, machine, version of Node and verdicts. */
  readonly figures: object;
  readonly verdicts: readonly Verdict[];
}

/** The place and the circumstances of a proof's run. */
export interface Provenance {
  readonly command: string;
  readonly machine: string;
  readonly node: string;
}

export function provenance({ command }: Pick<ProofOptions, 'command'>): Provenance {
  return { command, machine: `${cpus().length} × ${cpus()[0]?.model.trim()}`, node: process.versions.node };
}

/** Writes the page into `options.output` and returns its verdicts. */
export function writePage(options: Pick<ProofOptions, 'command' | 'output'>, page: ResultsPage): readonly Verdict[] {
  const { name, title, intro, plot, body, figures, verdicts } = page;
  const about = provenance(options);
  const write = (ending: string, text: string) => writeFileSync(join(options.output, `${name}.${ending}`), text);
  mkdirSync(options.output, { recursive: true });
  if (plot !== null) write('svg', plot.svg);
  write('json', `${JSON.stringify({ ...about, ...figures, verdicts }, null, 2)}\n`);
  const lines = [
    `# ${title}`,
    '',
    `Written by \`${about.command}\` on ${about.machine}.`,
    ...intro,
    '',
    ...(plot === null ? [] : [`![${plot.alt}](${name}.svg)`, '']),
    ...body,
    '',
    '## Verdicts',
    '',
    ...verdictLines(verdicts),
  ];
  write('md', `${lines.join('\n')}\n`);
  return verdicts;
}

function verdictLines(verdicts: readonly Verdict[]): string[] {
  return verdicts.map(({ ok, text }) => `- ${ok ? 'ok' : '**failed**'}: ${text}`);
}

/** A table in Markdown. */
export function tableLines(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}
